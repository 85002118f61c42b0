import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Builds what one run needs from a configuration: plugins, their hooks, and the stores.
struct Assembly: Sendable {
    let coprocesses: [CoprocessPlugin]
    let hooks: [Hook]
    let stores: [ServedStore]

    /// - Throws: `ObserverError` where a folder of stores cannot be read.
    init(
        _ loaded: LoadedConfiguration, persisted: [PluginConfiguration], stateFolder: String, logger: Logger
    ) throws {
        let catalog = HookCatalog(loaded, persisted: persisted)
        let plugins = Dictionary(
            catalog.needed.map { ($0.name, RunningPlugin($0, PluginMaking($0), logger: logger)) }
        ) { first, _ in first }
        coprocesses = catalog.needed.compactMap { plugins[$0.name]?.coprocess }
        hooks = catalog.hooks(calling: plugins)
        let endpoints = Locked(plugins.mapValues(\.endpoint))
        var storeCatalog = StoreCatalog(loaded.configuration)
        for (index, template) in loaded.configuration.templates.enumerated() {
            for case .appeared(let path) in try FolderWatcher.list(template.rules(excluding: stateFolder)) {
                _ = storeCatalog.appear(.init(template: index, path: path))
            }
        }
        let configurations = loaded.configuration.stores + storeCatalog.stores.sorted { $0.name < $1.name }
        stores = configurations.map { ServedStore($0, plugins: endpoints, starts: PluginStarts()) }
    }
}

extension ServedStore {
    /// - Parameters:
    ///   - plugins: The endpoints that answer calls now, by plugin name.
    ///   - starts: Notifies of their processes.
    init(_ store: StoreConfiguration, plugins: Locked<[String: any HookEndpoint]>, starts: PluginStarts) {
        let rule = DeliveryRule(
            authors: Set(names: store.authors.map(\.name)), deliversUnlisted: store.unlistedAuthors == .deliver,
            cleansUnlisted: store.cleansUnlisted, mirroringAuthors: Set(names: store.mirroringAuthors),
            includingMirroring: store.includingMirroring)
        let consumers = store.consumers.map { author in
            var ownRule = rule
            ownRule.ownProcesses = Set(names: author.ownProcesses)
            var consumer = Consumer(store: store.name, author: author.name, rule: ownRule)
            consumer.startAt = author.startAt
            consumer.batchWindow = author.batchWindow
            for context in author.contexts {
                let entities = context.entities.map { Set(names: $0) }
                switch context.kind {
                case .replica(let path, let access):
                    consumer.contexts.append(
                        ReplicaContext(name: context.name, path: path, entities: entities, access: access))
                case .feed(
                    let window, let maximumValueBytes, let largeIntegers, let properties, let condition):
                    let filter = ChangeFilter(
                        entities: entities, properties: properties.map { Set(names: $0) },
                        condition: context.entities?.first.flatMap { entity in
                            condition.map { RowCondition(entity: entity, $0) }
                        })
                    consumer.feeds.append(
                        FeedContext(
                            name: context.name, filter: filter, window: window,
                            maximumValueBytes: maximumValueBytes, largeIntegers: largeIntegers))
                case .plugin(let plugin):
                    consumer.pluginContexts.append(
                        PluginContext(
                            name: context.name, plugin: plugin, entities: entities,
                            endpoint: CurrentPlugin(name: plugin, plugins: plugins, starts: starts)))
                }
            }
            return consumer
        }
        self.init(
            name: store.name, path: store.path,
            entities: store.entities.map {
                Dictionary($0.map { (BinaryText($0.name), Optional($0.preserve)) }) { first, _ in first }
            },
            rule: rule, consumers: consumers, cleaning: store.clean.strategy,
            maximumDuration: store.clean.maximumDuration)
        tracksEveryTable = store.tracksEveryTable
        isMirror = store.isMirror
        source = store.source
        keep = store.clean.keep
        rest = store.rest
    }
}

/// A plugin, looked up by its name for each call: a reload may replace its process while the store keeps
/// running.
private struct CurrentPlugin: ContextEndpoint {
    let name: String
    let plugins: Locked<[String: any HookEndpoint]>
    let starts: PluginStarts

    var processes: AsyncStream<Int> { starts.processes(of: name) }

    func call(_ call: ContextCall, of process: Int?) async throws(HookFailure) -> ContextAnswer {
        guard let plugin = plugins.withLock({ $0[name] }) as? any ContextEndpoint else {
            throw HookFailure(.cannotStart, "Plugin \"\(name)\" does not run.")
        }
        return try await plugin.call(call, of: process)
    }
}
