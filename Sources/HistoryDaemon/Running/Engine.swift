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
    nonisolated let endpoints = Locked<[String: any HookEndpoint]>([:])
    nonisolated let pluginStarts = PluginStarts()
    /// How long a stop waits for the calls in flight, as currently configured.
    nonisolated let stopTimeout: Locked<Duration>
    nonisolated let observer = SharedObserver()
    nonisolated let keptPauses: KeptPauses
    /// The changes to the engine, one after the other.
    nonisolated let jobs = SerialJobs()
    /// Runs the search for unused states.
    nonisolated let unusedStates = SerialThreadExecutor()

    var loaded: LoadedConfiguration
    var catalog: HookCatalog
    var stores: [RunningStore] = []
    var plugins: [String: RunningPlugin] = [:]
    /// The folders of templates, in configuration order.
    var folders: [RunningFolder] = []
    var lastFolder = 0
    /// The stores in these folders.
    var storeCatalog: StoreCatalog
    /// Services of stores under an earlier configuration that still wait for a disk or a lock.
    var unended: [String: ServiceHost.HostedService] = [:]

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
        await waitForStores()
    }

    /// Waits until stores are open, or have failed to, or for a time.
    func waitForStores(atMost limit: Duration) async {
        await wait(atMost: limit) { await self.waitForStores() }
    }

    private func waitForStores() async {
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
}
