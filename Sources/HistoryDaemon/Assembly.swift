import HistoryConfiguration
import HistoryPlugins
import Logging
import PersistentHistory

/// Makes of a configuration what runs: plugins, their hooks, and the stores that are served.
struct Assembly: Sendable {
    let coprocesses: [CoprocessPlugin]
    let hooks: [Hook]
    let stores: [ServedStore]
    /// How often to look at a store that inotify does not reach, by name.
    let polled: [String: Duration]

    init(_ loaded: LoadedConfiguration, logger: Logger) {
        var coprocesses: [CoprocessPlugin] = []
        var byName: [String: Hook] = [:]
        var observers: [Hook] = []
        for plugin in loaded.plugins {
            let endpoint: any HookEndpoint
            switch plugin.mode {
            case .coprocess:
                let coprocess = CoprocessPlugin(PluginDescription(plugin), logger: logger)
                coprocesses.append(coprocess)
                endpoint = coprocess
            case .oneshot: endpoint = OneshotPlugin(PluginDescription(plugin), logger: logger)
            }
            for configured in plugin.hooks {
                let hook = configured.hook(calling: endpoint, policy: plugin.policy)
                byName[hook.name] = hook
                if hook.kind == .observer { observers.append(hook) }
            }
        }
        self.coprocesses = coprocesses
        hooks = observers + loaded.mergePipeline.compactMap { byName[$0.fullName] }
        stores = loaded.configuration.stores.map { ServedStore($0) }
        polled = Dictionary(
            loaded.configuration.stores.compactMap { store in store.poll.map { (store.name, $0) } }
        ) { first, _ in first }
    }

    var consumers: Int { stores.reduce(0) { $0 + $1.consumers.count } }
}

extension PluginDescription {
    init(_ plugin: PluginConfiguration) {
        self.init(
            name: plugin.name, command: plugin.command, mode: plugin.mode == .coprocess ? .coprocess : .oneshot,
            environment: plugin.environment, timeout: plugin.timeout)
    }
}

extension ServedStore {
    init(_ store: StoreConfiguration) {
        let rule = DeliveryRule(
            authors: Set(store.authors.map(\.name)), deliversUnlisted: store.unlistedAuthors == .deliver,
            mirroringAuthors: Set(store.mirroringAuthors), includingMirroring: store.includingMirroring)
        let consumers = store.consumers.map { author in
            Consumer(
                store: store.name, author: author.name, rule: rule,
                contexts: author.contexts.compactMap { ReplicaContext($0, storePath: store.path) })
        }
        self.init(
            name: store.name, path: store.path,
            entities: store.entities.map {
                Dictionary($0.map { ($0.name, Optional($0.preserve)) }) { first, _ in first }
            },
            rule: rule, consumers: consumers, cleaning: store.clean.strategy,
            maximumDuration: store.clean.maximumDuration)
    }
}

extension ReplicaContext {
    init?(_ context: ContextConfiguration, storePath: String) {
        guard case .replica(let path) = context.kind else { return nil }
        self.init(
            name: context.name, path: path, storePath: storePath, entities: context.entities.map { Set($0) })
    }
}
