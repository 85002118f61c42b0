extension NATSConfiguration {
    /// What is wrong with the files that it names, by their keys.
    ///
    /// systemd makes the credentials of a unit when it starts: they are not looked for.
    ///
    /// - Parameter isThere: Whether there is a file at a path.
    package func missingFiles(_ isThere: (String) -> Bool) -> [String] {
        [
            ("credentials", credentials), ("nkeySeed", nkeySeed), ("tls.ca", tls?.authority),
            ("tls.certificate", tls?.certificate), ("tls.key", tls?.key),
        ].compactMap { key, path in
            guard let path, !path.hasPrefix("/run/credentials/"), !isThere(path) else { return nil }
            return "\(key): expected a file, found none at \"\(path)\""
        }
    }
}
