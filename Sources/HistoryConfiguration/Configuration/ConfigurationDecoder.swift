import HistoryBase

/// Assembles a configuration from its main document and the drop-ins.
struct ConfigurationDecoder {
    /// A path of `plugins`, with the position of its name.
    typealias PluginPath = (path: String, node: DocumentNode)

    private(set) var stores: [StoreConfiguration] = []
    private(set) var templates: [StoreTemplate] = []
    private(set) var plugins: [PluginPath] = []
    private var logLevel = LogLevel.info
    private var logFormat = LogFormat.text
    private var stopTimeout = DaemonConfiguration.defaultStopTimeout
    /// False once a store or an author could not be decoded: an unknown name may then refer to it.
    private(set) var knowsAllNames = true

    private var storeDecoder = StoreDecoder()

    var contextPlugins: [(name: String, node: DocumentNode)] { storeDecoder.plugins }

    private var storeNames = Claims()
    private var storePaths = Claims()
    private var storeCount = 0
    /// The main document, and its list of stores.
    private var main: (root: DocumentNode, stores: DocumentNode?)?

    /// Adds the main document first, then the drop-ins in order; nil for one that could not be read.
    mutating func add(_ root: DocumentNode?) {
        guard let root,
            let fields = root.document(["stores", "plugins", "logLevel", "logFormat", "stopTimeout"])
        else {
            knowsAllNames = false
            return
        }
        if main == nil { main = (root, fields["stores"]) }
        if let node = fields["stores"] { addStores(node) }
        for node in fields["plugins"]?.list(expected: "a list of paths") ?? [] {
            if let path = node.filePath() { plugins.append((path, node)) }
        }
        if let level = fields["logLevel"]?.choice(LogLevel.allCases) { logLevel = level }
        if let format = fields["logFormat"]?.choice(LogFormat.allCases) { logFormat = format }
        if let timeout = fields["stopTimeout"]?.duration(upTo: .longestDelay) { stopTimeout = timeout }
    }

    private mutating func addStores(_ node: DocumentNode) {
        guard let nodes = node.list(expected: "a list of stores") else {
            knowsAllNames = false
            return
        }
        storeCount += nodes.count
        for node in nodes {
            switch storeDecoder.decode(node, names: &storeNames, paths: &storePaths) {
            case .store(let store): stores.append(store)
            case .template(let template): templates.append(template)
            case nil: knowsAllNames = false
            }
        }
    }

    /// Checks the conditions of feeds against the existing stores, and reads these.
    func checkConditions() {
        for (store, condition, node) in storeDecoder.conditions {
            ReferenceCheck.check(condition, at: node, in: store, takesDeletes: true, mayLackTable: false)
        }
    }

    /// Checks the configuration as a whole, and returns what is valid.
    func finish() -> DaemonConfiguration {
        if storeCount == 0, knowsAllNames, let main {
            let expected = "at least one store, here or in a file of conf.d"
            if let stores = main.stores {
                stores.report("expected \(expected), found an empty list")
            } else {
                main.root.report(
                    "missing, expected \(expected)", at: main.root.value.position,
                    path: main.root.path.entering(key: "stores"))
            }
        }
        for (file, replica) in storeDecoder.replicas.all {
            if let store = storePaths[file] {
                replica.report(
                    "a replica cannot use a store's file; the store is at \(store.location)")
            }
        }
        return DaemonConfiguration(
            stores: stores, templates: templates, plugins: plugins.map(\.path), logLevel: logLevel,
            logFormat: logFormat,
            stopTimeout: stopTimeout)
    }
}
