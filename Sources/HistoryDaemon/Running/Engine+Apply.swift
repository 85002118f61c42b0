import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import PersistentHistory

/// Moves from one configuration to the next.
extension Engine {
    /// The differences between two configurations.
    struct Difference: Sendable {
        var stores = ReloadReport.Changes()
        var plugins = ReloadReport.Changes()
    }

    /// Applies a configuration and hooks.
    func apply(_ loaded: LoadedConfiguration, _ catalog: HookCatalog) async -> Difference {
        DescriptorBudget.shared.keepSpare(loaded.spareDescriptors(plugins: catalog.needed.count))
        var difference = Difference()
        let nextPlugins = await nextPlugins(catalog, &difference.plugins)
        takeFolders(of: loaded.configuration)
        let wanted = loaded.configuration.stores + storeCatalog.stores.sorted { $0.name < $1.name }
        let kept = keptStores(of: wanted, &difference.stores)

        let endingStores = stores.filter { kept[$0.name] == nil }
        let endingPasses = endingStores.map(\.control.passes)
        await finish(endingStores, within: Self.timeout)
        let held = await holdCalls(of: difference.plugins, by: kept)
        registry.replaceAll(catalog.hooks(calling: nextPlugins))
        await change(to: nextPlugins, difference.plugins)
        for store in endingStores where difference.stores.ended.contains(store.name) { store.control.end() }
        let controls = Dictionary(stores.map { ($0.name, $0.control) }) { first, _ in first }
        stores = wanted.map { store in
            kept[store.name] ?? start(store, controls[store.name] ?? newControl(of: store))
        }
        stopTimeout.withLock { $0 = loaded.configuration.stopTimeout }
        for store in stores { store.control.stopTimeout = loaded.configuration.stopTimeout }
        self.loaded = loaded
        self.catalog = catalog
        show(unchanged: difference.plugins.unchanged)
        for passes in held + endingPasses { passes.release(by: .reload) }
        // What failed may have changed, or be gone.
        for store in stores { store.control.passes.tryNow() }
        return difference
    }

    // MARK: Plugins

    /// The plugins of a configuration: those that are the same go on.
    private func nextPlugins(_ catalog: HookCatalog, _ changes: inout ReloadReport.Changes) async
        -> [String: RunningPlugin]
    {
        var next: [String: RunningPlugin] = [:]
        // Checking a program's files may wait for a disk, so it does not run on the engine, which serves all
        // requests.
        let makings = await onPool { catalog.needed.map(PluginMaking.init) }
        for (plugin, making) in zip(catalog.needed, makings) {
            let old = plugins[plugin.name]
            var isSame = old?.making == making
            if let old, !isSame { isSame = old.making.isSame(as: making, besides: await old.writtenFiles()) }
            next[plugin.name] = isSame ? old : begin(plugin, making)
            changes.add(plugin.name, isNew: old == nil, isSame: isSame)
        }
        changes.ended = plugins.keys.filter { next[$0] == nil }.sorted()
        return next
    }

    private func begin(_ plugin: PluginConfiguration, _ making: PluginMaking) -> RunningPlugin {
        let log = PluginLog(plugin: plugin.name, logger: dependencies.logger, status: dependencies.status)
        return RunningPlugin(plugin, making, logger: dependencies.logger) { [pluginStarts] event in
            log.report(event)
            if case .began(let process) = event { pluginStarts.began(process, of: plugin.name) }
        }
    }

    /// Holds the stores that may be calling a plugin that ends; others do not wait for these calls.
    private func holdCalls(of plugins: ReloadReport.Changes, by kept: [String: RunningStore]) async
        -> [PassControl]
    {
        let ending = Set(plugins.ended + plugins.changed)
        let held = stores.filter { store in
            kept[store.name] != nil
                && !catalog.plugins(calledBy: store.configuration).isDisjoint(with: ending)
        }.map(\.control.passes)
        await hold(held)
        return held
    }

    /// Ends what is not wanted any more, and starts what is new.
    private func change(to next: [String: RunningPlugin], _ changes: ReloadReport.Changes) async {
        for name in changes.ended + changes.changed { await plugins[name]?.stop() }
        plugins = next
        // Before they start: contexts that are notified of that call them.
        endpoints.withLock { $0 = next.mapValues(\.endpoint) }
        for name in changes.begun + changes.changed {
            if let coprocess = next[name]?.coprocess { plugins[name]?.service = pluginHost.start(coprocess) }
        }
    }

    // MARK: Stores

    private func takeFolders(of configuration: DaemonConfiguration) {
        let next = folders(of: configuration.templates)
        for folder in folders where !next.contains(where: { $0.number == folder.number }) { folder.end() }
        folders = next
        storeCatalog = StoreCatalog(configuration)
        for (index, folder) in folders.enumerated() {
            for file in folder.filesInOrder { _ = storeCatalog.appear(.init(template: index, path: file)) }
        }
    }

    /// The stores whose configuration is the same, by name.
    private func keptStores(of wanted: [StoreConfiguration], _ changes: inout ReloadReport.Changes)
        -> [String: RunningStore]
    {
        var kept: [String: RunningStore] = [:]
        let old = Dictionary(stores.map { ($0.name, $0) }) { first, _ in first }
        for store in wanted {
            let isSame = old[store.name].map { Self.areSame($0.configuration, store) } ?? false
            if isSame { kept[store.name] = old[store.name] }
            changes.add(store.name, isNew: old[store.name] == nil, isSame: isSame)
        }
        let configured = Set(wanted.map(\.name))
        changes.ended = stores.map(\.name).filter { !configured.contains($0) }
        return kept
    }

    /// Whether two configurations are the same to the byte: `==` compares strings by canonical equivalence,
    /// while authors are compared by their bytes.
    private static func areSame(_ a: StoreConfiguration, _ b: StoreConfiguration) -> Bool {
        a == b && String(describing: a).hasSameBytes(as: String(describing: b))
    }

    /// Shows the configuration in force in the status.
    private func show(unchanged plugins: [String]) {
        let configuration = loaded.configuration
        dependencies.status.keepOnly(
            consumers: Dictionary(
                uniqueKeysWithValues: stores.map { ($0.name, Set($0.served.consumers.map(\.author))) }),
            hooks: Set(catalog.hooks.map(\.fullName)), plugins: Set(plugins),
            mayCome: { name in configuration.templates.contains { $0.namePattern.matches(name) } })
        dependencies.status.update { status in
            // A consumer that is configured again may still be paused.
            for store in stores { status.setPaused(of: store) }
            status.healthyLags = [:]
            status.healthyFeedLags = [:]
            status.templates = [:]
            for store in stores { status.noteLimits(of: store.configuration) }
        }
        showFolders()
    }
}

extension ReloadReport.Changes {
    fileprivate mutating func add(_ name: String, isNew: Bool, isSame: Bool) {
        if isNew { begun.append(name) } else if isSame { unchanged.append(name) } else { changed.append(name) }
    }
}

extension LoadedConfiguration {
    /// How many descriptors are needed besides the stores': the program itself with its short-lived ones,
    /// connections, and for each plugin the pipes of two processes, one that ends and one that starts.
    fileprivate func spareDescriptors(plugins: Int) -> Int {
        let feeds = configuration.storesAndPrototypes.flatMap(\.consumers).flatMap(\.contexts).count {
            if case .feed = $0.kind { true } else { false }
        }
        return 64 + ConnectionSlots.most + feeds + 8 * plugins
    }
}
