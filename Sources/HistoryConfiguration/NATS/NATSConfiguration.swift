/// What `historyd-nats` publishes and follows, and on which servers.
package struct NATSConfiguration: Sendable, Hashable {
    package var servers: [String] = []
    /// A file with a user's JWT and seed.
    package var credentials: String?
    /// The public part of an nkey.
    package var nkey: String?
    /// A file with the nkey's seed.
    package var nkeySeed: String?
    package var tls: TLS?
    /// The subject prefix of JetStream requests.
    package var jetStreamPrefix = "$JS.API"
    package var publish: [Publication] = []
    package var follow: [Following] = []
    package var logLevel = LogLevel.info
    /// How far a stream or a mirror may lag, and how long a failure may last, before the program counts as
    /// failing.
    package var healthyLag: Duration = .seconds(300)

    package struct TLS: Sendable, Hashable {
        package var authority: String?
        package var certificate: String?
        package var key: String?
    }

    /// A store whose history is published to a stream.
    package struct Publication: Sendable, Hashable {
        /// The store's file.
        package var store: String
        /// The stream's name is `HISTORY_<name>`.
        package var name: String
        package var feed: FeedSource?
        package var stream = Stream()
        /// How often a snapshot is made.
        package var snapshotInterval: Duration = .seconds(86400)
        /// How many snapshots are kept.
        package var keptSnapshots = 2
        /// How many messages may be unacknowledged.
        package var window = 256
        /// How long after the server has a transaction the feed is acknowledged: a server that does not sync
        /// each message may lose it.
        package var hold: Duration = .seconds(300)
        /// How often the stream reports that there is nothing new; nil for never.
        package var beat: Duration?
        /// The tables of which anything leaves the machine; nil for all.
        package var entities: [String]?
    }

    /// The daemon's feed. Its consumer keeps the history until the stream has it.
    package struct FeedSource: Sendable, Hashable {
        package var consumer: String
        package var context: String
        /// Nil for the daemon that runs as the system service.
        package var socket: String?
    }

    package struct Stream: Sendable, Hashable {
        /// Whether the stream is created if it is missing.
        package var create = true
        package var replicas = 1
        package var maxAge: Duration?
        package var maxBytes: Int64?
    }

    /// A stream that a mirror follows.
    package struct Following: Sendable, Hashable {
        package var name: String
        /// The mirror's file.
        package var path: String
        /// The tables that the mirror has; nil for all.
        package var entities: [String]?
    }
}

extension NATSConfiguration.Publication {
    /// With the default for all that may be left out.
    package init(store: String, name: String) { self.init(store: store, name: name, feed: nil) }
}

extension NATSConfiguration {
    /// Reads a configuration.
    ///
    /// - Throws: `ConfigurationErrors` with all problems of it.
    package static func load(file: String) throws(ConfigurationErrors) -> NATSConfiguration {
        let problems = ProblemList()
        let bytes: [UInt8]
        do {
            bytes = try ConfigurationFile.read(file)
        } catch {
            problems.report(
                ConfigurationProblem(
                    file: file, position: nil, message: "cannot be read: \(error); --config names another one")
            )
            if let errors = problems.errors { throw errors }
            return NATSConfiguration()
        }
        let source = DocumentNode.Source(
            file: file, folder: ConfigurationFile.folder(of: file), problems: problems)
        let configuration = DocumentNode.root(of: bytes, source: source).flatMap(NATSDecoder.decode)
        if let errors = problems.errors { throw errors }
        return configuration ?? NATSConfiguration()
    }
}

extension NATSConfiguration {
    /// The problems with the files that it names, by key.
    ///
    /// systemd creates a unit's credentials when it starts the unit, so their files are not checked.
    ///
    /// - Parameter isThere: Whether a file exists at a path.
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
