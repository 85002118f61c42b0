internal import Glibc
public import HistoryConfiguration
import HistoryPlugins
public import Logging
import PersistentHistory
import ServiceLifecycle
import UnixSignals

/// The daemon: a configuration, made to run until a signal ends it.
public struct Daemon: Sendable {
    /// How long what runs at a stop may take to end; below the unit's TimeoutStopSec.
    static let patience: Duration = .seconds(20)

    private let loaded: LoadedConfiguration
    private let folder: StateFolder
    private let logger: Logger
    private let level: LiveLogLevel
    private let notifier: any ServiceNotifying

    /// Takes the state folder.
    ///
    /// - Throws: `HistoryError` with `.stateInUse` or `.stateUnusable`.
    public init(_ loaded: LoadedConfiguration, stateFolder: String, logger: Logger, level: LiveLogLevel) throws
    {
        self.loaded = loaded
        self.logger = logger
        self.level = level
        folder = try StateFolder(stateFolder)
        notifier = ServiceNotifier(logger: logger)
        // A plugin that closes its standard input is a failed write, not the end of the daemon.
        signal(SIGPIPE, SIG_IGN)
        // Between two generations nobody listens for it, and it would end the daemon.
        signal(SIGHUP, SIG_IGN)
    }

    /// Serves all stores until SIGTERM or SIGINT; SIGHUP reads the configuration again.
    ///
    /// A new configuration begins a new generation: the running passes end, their cursors are
    /// saved, and everything is begun anew. With an error in it the old one stays in force.
    ///
    /// - Throws: `ObserverError` or `HistoryError` where the daemon can not go on.
    public func run() async throws {
        var current: LoadedConfiguration? = loaded
        logger.report(.starting, "historyd \(HistoryVersion.current) starts, state \"\(folder.path)\".")
        while let generation = current {
            let next = Locked<LoadedConfiguration?>(nil)
            try await serve(generation) { new in next.withLock { $0 = new } }
            current = next.withLock { $0 }
        }
        logger.info("historyd has stopped.")
    }

    /// Serves one configuration, until told to stop or to go on with another.
    private func serve(_ loaded: LoadedConfiguration, goOn: @escaping @Sendable (LoadedConfiguration) -> Void)
        async throws
    {
        level.level = loaded.configuration.logLevel.loggerLevel
        let assembly = Assembly(loaded, logger: logger)
        let status = Locked(DaemonStatus(stores: assembly.stores.count, hooks: assembly.hooks.count))
        logger.info(
            "Configuration \"\(loaded.files.first ?? "")\": \(assembly.stores.count, "store"), \(assembly.consumers, "consumer"), \(loaded.plugins.count, "plugin"), \(assembly.hooks.count, "hook")."
        )

        let observer = try StoreObserver()
        let registry = HookRegistry(assembly.hooks)
        var services: [any Service] = [ObserverService(observer: observer)]
        services += assembly.coprocesses
        var gates: [StartGate] = []
        for store in assembly.stores {
            let gate = StartGate()
            let stop = StopSignal()
            let log = PipelineLog(store: store.name, logger: logger, status: status, notifier: notifier)
            let runner = StoreRunner(
                store, hooks: registry, stateFolder: folder.path, reporter: log, stop: stop)
            let signals =
                try assembly.polled[store.name].map { PollingObserver(every: $0).watch(store.path) }
                ?? observer.watch(store.path)
            services.append(StoreService(runner: runner, signals: signals, stop: stop, gate: gate))
            gates.append(gate)
        }
        services.append(
            WatchdogService(interval: ServiceNotifier.watchdogInterval(), notifier: notifier, logger: logger) {
                // The hooks' actor is on every pass's way: while it answers, passes can go on.
                _ = await registry.hooks(store: "", consumer: "")
            })
        let reload = ReloadService(
            file: loaded.files.first ?? "", logger: logger, notifier: notifier, goOn: goOn)
        services.append(readiness(assembly, gates, status, isReloading: { reload.isTaken }))

        var configuration = ServiceGroupConfiguration(
            services: services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) }
                // When a new configuration was read, everything ends in good order.
                + [.init(service: reload, successTerminationBehavior: .gracefullyShutdownGroup)],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger.quiet)
        configuration.maximumGracefulShutdownDuration = Self.patience
        try await ServiceGroup(configuration: configuration).run()
    }

    private func readiness(
        _ assembly: Assembly, _ gates: [StartGate], _ status: Locked<DaemonStatus>,
        isReloading: @escaping @Sendable () -> Bool
    ) -> ReadinessService {
        ReadinessService {
            for plugin in assembly.coprocesses {
                do throws(HookFailure) {
                    try await plugin.waitUntilStarted()
                } catch  where error.reason == .cancelled {
                    // The daemon ends before it was ready, for a reason that is told elsewhere.
                } catch {
                    logger.report(
                        .pluginUnstartable,
                        "Plugin \"\(plugin.plugin.name)\" can not be started: \(error) It is tried again.")
                }
            }
            for gate in gates { await gate.wait() }
        } isReady: {
            let line = status.withLock(\.line)
            notifier.notify(.ready, .status(line))
            logger.report(.ready, "\(line).")
        } isStopping: {
            if isReloading() { return }
            notifier.notify(.stopping, .status("Stopping"))
            logger.report(.stopping, "historyd stops.")
        }
    }

    /// Works off everything there is, and returns: whether all consumers are level.
    ///
    /// - Throws: `HistoryError` where a store can not be opened or read.
    public func runOnce() async throws -> Bool {
        level.level = loaded.configuration.logLevel.loggerLevel
        let assembly = Assembly(loaded, logger: logger)
        let status = Locked(DaemonStatus(stores: assembly.stores.count, hooks: assembly.hooks.count))
        let registry = HookRegistry(assembly.hooks)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for coprocess in assembly.coprocesses { group.addTask { await coprocess.run() } }
            let result: Result<Bool, any Error>
            do {
                result = .success(try await serveOnce(assembly, registry, status))
            } catch {
                result = .failure(error)
            }
            for coprocess in assembly.coprocesses { coprocess.stop() }
            try await group.waitForAll()
            return try result.get()
        }
    }

    private func serveOnce(_ assembly: Assembly, _ registry: HookRegistry, _ status: Locked<DaemonStatus>)
        async throws -> Bool
    {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for store in assembly.stores {
                group.addTask {
                    let stop = StopSignal()
                    let log = PipelineLog(store: store.name, logger: logger, status: status, notifier: notifier)
                    { stop.request() }
                    try await StoreRunner(
                        store, hooks: registry, stateFolder: folder.path, reporter: log, stop: stop
                    ).runOnce()
                    return !stop.isRequested
                }
            }
            return try await group.reduce(true) { $0 && $1 }
        }
    }
}

extension Logger {
    /// For libraries whose notes on their own life would fill the log.
    fileprivate var quiet: Logger {
        var logger = self
        logger.logLevel = .error
        return logger
    }
}
