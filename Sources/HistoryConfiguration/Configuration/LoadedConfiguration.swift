/// A complete, valid configuration: its main document, the drop-ins, and the manifests that it names.
package struct LoadedConfiguration: Sendable, Hashable {
    package let configuration: DaemonConfiguration
    /// The plugins of all manifests, in order: by file, then by position in the file.
    package let plugins: [PluginConfiguration]
    /// The files that were read, in that order.
    package let files: [String]

    /// The main document's path, absolute: a reader may have another working directory.
    package var path: String {
        guard let file = files.first, let name = file.split(separator: "/").last else { return "" }
        return "\(ConfigurationFile.folder(of: file))/\(name)"
    }

    /// Reads a configuration, `conf.d/*.json` beside it, and all manifests.
    ///
    /// A drop-in adds stores and manifests to those of earlier files; its log level and stop timeout replace
    /// theirs. A store's file need not exist.
    ///
    /// - Parameters:
    ///   - file: The main document.
    ///   - checkingCommands: Whether a plugin's command that cannot be started is an error. A daemon retries
    ///     such a command, because its disk may be mounted later.
    ///   - checkingStores: Whether a condition that does not fit a store is an error. The check may wait for
    ///     disks. A daemon holds the consumers with such a condition.
    /// - Throws: `ConfigurationErrors` with all problems of all these files, unreadable ones included.
    package static func load(
        file: String, checkingCommands: Bool = false, checkingStores: Bool = false
    ) throws(ConfigurationErrors) -> LoadedConfiguration {
        var loader = ConfigurationLoader(checksCommands: checkingCommands, checksStores: checkingStores)
        return try loader.load(file: file)
    }
}

extension PluginConfiguration {
    /// Reads a manifest that joins a configuration in force.
    ///
    /// - Parameters:
    ///   - bytes: The manifest.
    ///   - file: The manifest's name in messages; relative paths in it start at its folder.
    ///   - configuration: The stores and consumers that exist.
    ///   - others: The plugins that exist already.
    ///   - checkingStores: Whether to check conditions against the existing stores, which may wait for disks.
    /// - Throws: `ConfigurationErrors` with all problems of the manifest.
    package static func read(
        manifest bytes: [UInt8], file: String, for configuration: DaemonConfiguration,
        besides others: [PluginConfiguration], checkingStores: Bool = false
    ) throws(ConfigurationErrors) -> [PluginConfiguration] {
        try read(manifest: bytes, file: file, besides: others) { decoder in
            let check = ReferenceCheck(references: decoder.references)
            check.checkStores(of: configuration)
            if checkingStores { check.checkConditions(of: configuration) }
            check.checkOrder(besides: others.flatMap(\.hooks), complete: decoder.knowsAllNames)
        }
    }

    /// Reads a manifest by itself, without checking the stores, consumers and hooks to which it refers.
    ///
    /// - Throws: `ConfigurationErrors` with all problems of the manifest.
    package static func read(manifest bytes: [UInt8], file: String) throws(ConfigurationErrors)
        -> [PluginConfiguration]
    {
        try read(manifest: bytes, file: file, besides: []) { _ in }
    }

    private static func read(
        manifest bytes: [UInt8], file: String, besides others: [PluginConfiguration],
        _ check: (ManifestDecoder) -> Void
    ) throws(ConfigurationErrors) -> [PluginConfiguration] {
        let problems = ProblemList()
        let source = DocumentNode.Source(
            file: file, folder: ConfigurationFile.folder(of: file), problems: problems)
        var decoder = ManifestDecoder(existing: Set(others.map(\.name)))
        decoder.add(DocumentNode.root(of: bytes, source: source))
        check(decoder)
        if let errors = problems.errors { throw errors }
        return decoder.plugins
    }
}
