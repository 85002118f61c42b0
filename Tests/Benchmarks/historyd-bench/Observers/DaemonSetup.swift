import FoundationEssentials

/// A configuration and a manifest as users write them (see the schemas in `config`).
struct DaemonSetup {
    struct Store: Encodable {
        struct Author: Encodable {
            let name: String
            var batch: Bool?
            var contexts: [Context]?
        }

        struct Context: Encodable {
            let name: String
            var kind = "replica"
            let path: String
        }

        /// Only what is asked for is deleted.
        struct Cleaning: Encodable { let strategy = "none" }

        let name: String
        let path: String
        var authors: [Author]
        let clean = Cleaning()

        /// A store that only `Writer` writes to, for `Reader`.
        init(_ path: String, name: String = "store", readers: [Author] = [.init(name: BenchStore.reader)]) {
            self.name = name
            self.path = path
            authors = readers + [.init(name: BenchStore.writer, batch: true)]
        }
    }

    struct Hook: Encodable {
        var name = "items"
        var kind = "observer"
        var entity = BenchStore.table
        var consumer: String?
        var store: String?
    }

    var stores: [Store]
    /// The manifest of one coprocess plugin; nil without hooks.
    var hooks = [Hook()]

    private struct Configuration: Encodable {
        var version = 1
        let stores: [Store]
        let plugins: [String]
    }

    private struct Manifest: Encodable {
        struct Plugin: Encodable {
            var name = "bench"
            let command: [String]
            var mode = "coprocess"
            var timeout = "60s"
            let hooks: [Hook]
        }

        var version = 1
        let plugins: [Plugin]
    }

    /// Writes the configuration and the manifest.
    ///
    /// - Returns: the configuration's path.
    func write(to folder: String, command: [String]) throws -> String {
        let (manifest, configuration) = ("\(folder)/plugins.json", "\(folder)/historyd.json")
        if !hooks.isEmpty { try save(Manifest(plugins: [.init(command: command, hooks: hooks)]), manifest) }
        try save(Configuration(stores: stores, plugins: hooks.isEmpty ? [] : [manifest]), configuration)
        return configuration
    }

    private func save(_ value: some Encodable, _ path: String) throws {
        try JSONEncoder().encode(value).write(to: URL(filePath: path))
    }
}
