import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Makes of a configuration what a single run needs: plugins, their hooks, and the stores.
struct Assembly: Sendable {
    let coprocesses: [CoprocessPlugin]
    let hooks: [Hook]
    let stores: [ServedStore]

    init(_ loaded: LoadedConfiguration, persisted: [PluginConfiguration], logger: Logger) {
        let catalog = HookCatalog(
            manifests: loaded.plugins, added: persisted.map { .init(plugin: $0, origin: .persisted) })
        let plugins = Dictionary(
            catalog.needed.map { ($0.name, RunningPlugin($0, logger: logger)) }
        ) { first, _ in first }
        coprocesses = catalog.needed.compactMap { plugins[$0.name]?.coprocess }
        hooks = catalog.hooks(calling: plugins)
        stores = loaded.configuration.stores.map { ServedStore($0) }
    }
}

extension PluginDescription {
    init(_ plugin: PluginConfiguration) {
        self.init(
            name: plugin.name, command: plugin.command, mode: plugin.mode == .coprocess ? .coprocess : .oneshot,
            environment: plugin.environment, credentials: plugin.credentials, timeout: plugin.timeout,
            window: plugin.window)
    }
}

extension ServedStore {
    init(_ store: StoreConfiguration) {
        let rule = DeliveryRule(
            authors: Set(store.authors.map(\.name)), deliversUnlisted: store.unlistedAuthors == .deliver,
            cleansUnlisted: store.cleansUnlisted, mirroringAuthors: Set(store.mirroringAuthors),
            includingMirroring: store.includingMirroring)
        let consumers = store.consumers.map { author in
            Consumer(
                store: store.name, author: author.name, rule: rule,
                contexts: author.contexts.compactMap { ReplicaContext($0) },
                feeds: author.contexts.compactMap { FeedContext($0) })
        }
        self.init(
            name: store.name, path: store.path,
            entities: store.entities.map {
                Dictionary($0.map { ($0.name, Optional($0.preserve)) }) { first, _ in first }
            },
            rule: rule, consumers: consumers, cleaning: store.clean.strategy,
            maximumDuration: store.clean.maximumDuration)
        tracksEveryTable = store.tracksEveryTable
        isMirror = store.isMirror
    }
}

extension ReplicaContext {
    init?(_ context: ContextConfiguration) {
        guard case .replica(let path, let access) = context.kind else { return nil }
        self.init(name: context.name, path: path, entities: context.entities.map { Set($0) }, access: access)
    }
}

extension FeedContext {
    init?(_ context: ContextConfiguration) {
        guard case .feed(let window, let maximumValueBytes) = context.kind else { return nil }
        self.init(
            name: context.name, entities: context.entities.map { Set($0) }, window: window,
            maximumValueBytes: maximumValueBytes)
    }
}
