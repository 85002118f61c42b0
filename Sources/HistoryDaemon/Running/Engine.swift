import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Runs stores, plugins and their hooks. It moves from one configuration to the next, and leaves alone what is
/// the same in both.
///
/// Its changes are made one at a time, by `SerialJobs`.
actor Engine {
    /// How long batches in flight may take to end before their plugin is stopped anyway. Their calls are then
    /// repeated.
    static let timeout: Duration = .seconds(5)

    nonisolated let dependencies: Dependencies
    nonisolated let registry = HookRegistry()
    nonisolated let pluginHost = ServiceHost()
    nonisolated let storeHost = ServiceHost()
    /// The endpoints that answer calls, by plugin name, as currently configured.
    private nonisolated let endpoints = Locked<[String: any HookEndpoint]>([:])
    /// How long a stop waits for the calls in flight, as currently configured.
    nonisolated let stopTimeout: Locked<Duration>
    nonisolated let observer = SharedObserver()
    nonisolated let keptPauses: KeptPauses
    /// The changes to the engine, one after the other.
    nonisolated let jobs = SerialJobs()
    /// Runs the search for unused states.
    nonisolated let unusedStates = SerialThreadExecutor()

    private(set) var loaded: LoadedConfiguration
    private(set) var catalog: HookCatalog
    private(set) var stores: [RunningStore] = []
    private var plugins: [String: RunningPlugin] = [:]
    /// The folders of templates, in configuration order.
    var folders: [RunningFolder] = []
    var lastFolder = 0
    /// The stores in these folders.
    var storeCatalog: StoreCatalog
    /// Services of stores under an earlier configuration that still wait for a disk or a lock.
    private var unended: [String: ServiceHost.HostedService] = [:]

    /// What does not change while the daemon runs.
    struct Dependencies: Sendable {
        let stateFolder: String
        let logger: Logger
        let level: LiveLogLevel
        let notifier: any ServiceNotifying
        let status: LiveStatus
        let deliveries: DeliveryLog
    }

    init(_ loaded: LoadedConfiguration, persisted: [PluginConfiguration], _ dependencies: Dependencies) {
        self.loaded = loaded
        self.dependencies = dependencies
        catalog = HookCatalog(loaded, persisted: persisted)
        stopTimeout = Locked(loaded.configuration.stopTimeout)
        keptPauses = KeptPauses(stateFolder: dependencies.stateFolder)
        storeCatalog = StoreCatalog(loaded.configuration)
    }

    /// Starts everything; the hosts run it.
    func begin() async { _ = await apply(loaded, catalog) }

    /// Waits until stores are open and plugins' processes run, or have failed to.
    ///
    /// - Parameter names: The plugins to wait for; nil for all.
    func waitUntilUp(_ names: [String]? = nil) async {
        await waitForPlugins(names)
        // A folder whose disk does not answer does not delay other stores.
        let listed = folders.map(\.listed)
        await wait(atMost: Self.timeout * 2) { for folder in listed { await folder.wait() } }
        for store in stores { await store.up.wait() }
    }

    /// Like `waitUntilUp`, after a change to the running daemon: it does not wait for slow disks.
    func waitBriefly(_ names: [String]) async {
        await wait(atMost: Self.timeout * 2) { await self.waitUntilUp(names) }
    }

    private func waitForPlugins(_ names: [String]?) async {
        for name in names ?? plugins.keys.sorted() {
            guard let coprocess = plugins[name]?.coprocess else { continue }
            do throws(HookFailure) {
                try await coprocess.waitUntilStarted()
            } catch  where error.reason == .cancelled {
                // It ended before it was up, for a reason that is reported elsewhere.
            } catch {
                dependencies.logger.report(
                    .pluginUnstartable,
                    "Plugin \"\(name)\" cannot be started: \(error) It is tried again.")
            }
        }
    }

    /// Makes the next apply of a configuration restart a coprocess.
    func forgetFiles(of name: String) { plugins[name]?.making.files = [] }

    /// - Throws: `HookFailure` with the reason why its process does not run.
    func waitUntilStarted(_ name: String) async throws(HookFailure) {
        try await plugins[name]?.coprocess?.waitUntilStarted()
    }

    // MARK: From one configuration to the next

    /// The differences between two configurations.
    struct Difference: Sendable {
        var stores = ReloadReport.Changes()
        var plugins = ReloadReport.Changes()
    }

    /// Whether two configurations are the same to the byte: `==` compares strings by canonical equivalence,
    /// while authors are compared by their bytes.
    private static func areSame(_ a: StoreConfiguration, _ b: StoreConfiguration) -> Bool {
        a == b && String(describing: a).hasSameBytes(as: String(describing: b))
    }

    /// Applies a configuration and hooks.
    func apply(_ loaded: LoadedConfiguration, _ catalog: HookCatalog) async -> Difference {
        DescriptorBudget.shared.keepSpare(loaded.spareDescriptors(plugins: catalog.needed.count))
        var difference = Difference()
        var nextPlugins: [String: RunningPlugin] = [:]
        // Checking a program's files may wait for a disk, so it does not run on the engine, which serves all
        // requests.
        let makings = await onPool { catalog.needed.map(PluginMaking.init) }
        for (plugin, making) in zip(catalog.needed, makings) {
            let old = plugins[plugin.name]
            var isSame = old?.making == making
            if let old, !isSame { isSame = old.making.isSame(as: making, besides: await old.writtenFiles()) }
            nextPlugins[plugin.name] = isSame ? old : begin(plugin, making)
            difference.plugins.add(plugin.name, isNew: old == nil, isSame: isSame)
        }
        difference.plugins.ended = plugins.keys.filter { nextPlugins[$0] == nil }.sorted()

        let nextFolders = folders(of: loaded.configuration.templates)
        let endingFolders = folders.filter { old in !nextFolders.contains { $0.number == old.number } }
        for folder in endingFolders { folder.end() }
        folders = nextFolders
        storeCatalog = StoreCatalog(loaded.configuration)
        for (index, folder) in folders.enumerated() {
            for file in folder.filesInOrder { _ = storeCatalog.appear(.init(template: index, path: file)) }
        }
        let wanted = loaded.configuration.stores + storeCatalog.stores.sorted { $0.name < $1.name }

        var kept: [String: RunningStore] = [:]
        let oldStores = Dictionary(stores.map { ($0.name, $0) }) { first, _ in first }
        for store in wanted {
            let old = oldStores[store.name]
            let isSame = old.map { Self.areSame($0.configuration, store) } ?? false
            if isSame { kept[store.name] = old }
            difference.stores.add(store.name, isNew: old == nil, isSame: isSame)
        }
        let configured = Set(wanted.map(\.name))
        difference.stores.ended = stores.map(\.name).filter { !configured.contains($0) }

        let endingPlugins = (difference.plugins.ended + difference.plugins.changed).compactMap { plugins[$0] }
        let endingStores = stores.filter { kept[$0.name] == nil }
        let endingPasses = endingStores.map(\.control.passes)
        await finish(endingStores, within: Self.timeout)
        // When a plugin ends, some stores may be calling it. Other stores do not wait for these calls.
        let ending = Set(difference.plugins.ended + difference.plugins.changed)
        let held = stores.filter { store in
            kept[store.name] != nil
                && !self.catalog.plugins(calledBy: store.configuration).isDisjoint(with: ending)
        }.map(\.control.passes)
        await hold(held)
        registry.replaceAll(catalog.hooks(calling: nextPlugins))
        for plugin in endingPlugins { await plugin.stop() }
        for name in difference.plugins.begun + difference.plugins.changed {
            if let coprocess = nextPlugins[name]?.coprocess {
                nextPlugins[name]?.service = pluginHost.start(coprocess)
            }
        }
        endpoints.withLock { $0 = nextPlugins.mapValues(\.endpoint) }
        for store in endingStores where difference.stores.ended.contains(store.name) { store.control.end() }
        let controls = Dictionary(stores.map { ($0.name, $0.control) }) { first, _ in first }
        stores = wanted.map { store in
            kept[store.name] ?? start(store, controls[store.name] ?? newControl(of: store))
        }
        plugins = nextPlugins
        stopTimeout.withLock { $0 = loaded.configuration.stopTimeout }
        for store in stores { store.control.stopTimeout = loaded.configuration.stopTimeout }
        self.loaded = loaded
        self.catalog = catalog
        dependencies.status.keepOnly(
            consumers: Dictionary(
                uniqueKeysWithValues: stores.map { ($0.name, Set($0.served.consumers.map(\.author))) }),
            hooks: Set(catalog.hooks.map(\.fullName)), plugins: Set(difference.plugins.unchanged),
            mayCome: { name in loaded.configuration.templates.contains { $0.namePattern.matches(name) } })
        dependencies.status.update { status in
            // A consumer that is configured again may still be paused.
            for store in stores { status.setPaused(of: store) }
            status.healthyLags = [:]
            status.healthyFeedLags = [:]
            status.templates = [:]
            for store in stores { status.noteLimits(of: store.configuration) }
        }
        showFolders()
        for passes in held + endingPasses { passes.release(by: .reload) }
        // What failed may have changed, or be gone.
        for store in stores { store.control.passes.tryNow() }
        return difference
    }

    private func begin(_ plugin: PluginConfiguration, _ making: PluginMaking) -> RunningPlugin {
        let log = PluginLog(plugin: plugin.name, logger: dependencies.logger, status: dependencies.status)
        return RunningPlugin(plugin, making, logger: dependencies.logger) { log.report($0) }
    }

    /// Waits until current batches have ended, for a limited time.
    private func hold(_ passes: [PassControl], within timeout: Duration = Engine.timeout) async {
        for control in passes { control.hold(by: .reload) }
        await wait(atMost: timeout) { for control in passes { await control.quiet() } }
    }

    /// Ends the services of stores. Their passes are held until then.
    func finish(_ stores: [RunningStore], within timeout: Duration) async {
        // Slow disks can make this take long: no other store waits for these.
        await hold(stores.map(\.control.passes), within: timeout)
        await withTaskGroup(of: Void.self) { group in
            for store in stores { group.addTask { await store.finish(within: timeout) } }
        }
        unended = unended.filter { !$0.value.hasEnded }
        for store in stores where !store.service.hasEnded { unended[store.name] = store.service }
    }

    /// Starts new stores.
    func begin(_ configurations: [StoreConfiguration]) {
        for configuration in configurations {
            let store = start(configuration, newControl(of: configuration))
            store.control.stopTimeout = loaded.configuration.stopTimeout
            stores.append(store)
        }
    }

    /// Removes stores that have ended.
    func forget(_ names: Set<String>) { stores.removeAll { names.contains($0.name) } }

    /// Creates the control of a new store, paused where its configuration says so or an operator's pause was
    /// kept.
    private func newControl(of store: StoreConfiguration) -> StoreControl {
        let control = StoreControl()
        for consumer in keptPauses.consumers(of: store.name) {
            control.passes.hold(by: .consumer(BinaryText(consumer)))
            dependencies.logger.report(
                .paused,
                "Consumer \"\(consumer)\" of store \"\(store.name)\" stays paused: its pause was kept over restarts.",
                metadata: ["store": "\(store.name)", "consumer": "\(consumer)"])
        }
        let isKept = keptPauses.contains(.init(store: store.name))
        guard isKept || !store.autoStart else { return control }
        control.passes.hold(by: .operatorOrder)
        dependencies.status.update(store.name) { $0.setPaused(true, store.name) }
        let why = isKept ? "stays paused: its pause was kept over restarts" : "starts paused, as configured"
        dependencies.logger.report(
            .paused, "Store \"\(store.name)\" \(why).", metadata: ["store": "\(store.name)"])
        return control
    }

    private func start(_ configuration: StoreConfiguration, _ control: StoreControl) -> RunningStore {
        let served = ServedStore(configuration, plugins: endpoints)
        let reporter = PipelineLog(
            store: configuration.name, logger: dependencies.logger, status: dependencies.status,
            deliveries: dependencies.deliveries, isOfFolder: configuration.template != nil)
        let stop = OneShotEvent()
        let up = OneShotEvent()
        let runner = StoreRunner(
            served, hooks: registry, stateFolder: dependencies.stateFolder, reporter: reporter, stop: stop,
            control: control)
        let path = configuration.path
        let watch: @Sendable () throws -> StoreSignals =
            if let interval = configuration.poll {
                { StoreSignals(from: PollingObserver(of: path, every: interval)) }
            } else {
                { [observer] in try observer.watch(path) }
            }
        let service = storeHost.start(
            StoreService(
                runner: runner, watch: watch, reporter: reporter, path: path, stop: stop, gate: up,
                predecessor: unended[configuration.name]
            ) { [endpoints] in
                // A stop waits for the calls in flight, and starts no others.
                for endpoint in endpoints.withLock({ $0 }).values { endpoint.finishCalls() }
            })
        return RunningStore(
            configuration: configuration, served: served, control: control, stop: stop, up: up, service: service
        )
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
