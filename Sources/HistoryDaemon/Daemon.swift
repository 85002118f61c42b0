internal import CPlatform
internal import Glibc
package import HistoryConfiguration
import HistoryControl
import HistoryPlugins
package import Logging
import PersistentHistory
import ServiceLifecycle

/// Runs a configuration until a signal ends it.
package struct Daemon: Sendable {
    /// How long a stop may take beyond `stopTimeout`: plugins get time to end, and are then killed.
    static let teardown: Duration = .seconds(8)

    private let loaded: LoadedConfiguration
    private let persisted: [PluginConfiguration]
    private let folder: StateFolder
    private let logger: Logger
    private let level: LiveLogLevel
    private let notifier: ServiceNotifier

    /// Reads the hooks that were added to an earlier daemon and kept.
    ///
    /// - Throws: `HistoryError` if they cannot be read, or if one that does not fit the configuration cannot be
    ///   moved aside.
    package init(
        _ loaded: LoadedConfiguration, stateFolder: StateFolder, logger: Logger, level: LiveLogLevel,
        notifier: ServiceNotifier
    ) throws {
        self.loaded = loaded
        self.logger = logger
        self.level = level
        self.notifier = notifier
        folder = stateFolder
        persisted = try PersistedHooks(stateFolder: stateFolder.path).load(for: loaded, logger)
        // Until the daemon handles SIGHUP, that signal would end it.
        signal(SIGHUP, SIG_IGN)
    }

    /// Serves all stores until SIGTERM or SIGINT. SIGHUP, or a request on the control socket, reloads the
    /// configuration.
    ///
    /// - Throws: `HistoryError` where the daemon cannot go on.
    package func run(control: ControlListener, metrics: [Int32] = []) async throws {
        // Before other threads exist.
        let (stop, reload) = (try SignalLine([SIGTERM, SIGINT]), try SignalLine([SIGHUP]))
        logger.report(.starting, "historyd \(HistoryVersion.current) starts, state \"\(folder.path)\".")
        level.level = loaded.configuration.logLevel
        LogLine.format = loaded.configuration.logFormat
        var known = RuntimeStatus()
        known.counters = CounterKeeper.load(from: folder.path, logger: logger)
        let status = LiveStatus(known, notifier: notifier)
        let engine = Engine(
            loaded, persisted: persisted,
            Engine.Dependencies(
                stateFolder: folder.path, logger: logger, level: level, notifier: notifier, status: status,
                deliveries: DeliveryLog(logger: logger)))
        try engine.keptPauses.load(logger)
        await engine.begin()
        let catalog = await engine.catalog
        logger.info(
            "Configuration \"\(loaded.files.first ?? "")\": \(loaded.configuration.stores.count, "store"), \(loaded.consumers, "consumer"), \(catalog.plugins.count, "plugin"), \(catalog.hooks.count, "hook")."
        )
        try await serve(engine, control, metrics, stop, reload)
        engine.dependencies.deliveries.flush()
        logger.info("historyd has stopped.")
    }

    private func serve(
        _ engine: Engine, _ control: ControlListener, _ metrics: [Int32], _ stop: SignalLine,
        _ reload: SignalLine
    ) async throws {
        let jobs = engine.jobs
        let handler = ControlHandler(engine: engine, jobs: jobs, startedAt: .now)
        let listening = OneShotEvent()
        let watchdog = WatchdogService(
            interval: ServiceNotifier.watchdogInterval(), notifier: notifier, logger: logger
        ) {
            // Signals, timers and answers reach the stores while the loop turns.
            await LoopActor.turn()
            for store in await engine.stores {
                guard let time = store.control.standstill(), time > StoreControl.longestStandstill else {
                    continue
                }
                throw HistoryError(
                    .storeBusy,
                    "The store \"\(store.name)\" has made no progress for \(time.components.seconds) s.")
            }
        }
        // The group stops the last one first.
        let services: [any Service] = [
            CounterKeeper(stateFolder: folder.path, status: engine.dependencies.status, logger: logger),
            engine.observer, engine.pluginHost, engine.storeHost, watchdog, statusLine(handler), jobs,
            notifier,
            BackgroundService { try await handler.serve(control, listening: listening) },
            metrics.isEmpty
                ? BackgroundService(work: nil)
                : BackgroundService { try await handler.serveMetrics(on: metrics) },
            BackgroundService {
                // A refused reload is reported with all errors, and the old configuration stays in force.
                while try await reload.next() != nil { _ = try? await handler.reload() }
            },
            BackgroundService {
                while true {
                    try await Task.sleep(for: await engine.stateInterval, clock: .loop)
                    try await jobs.perform { await engine.removeUnusedStates() }
                }
            },
            readiness(engine, listening),
        ]
        let configuration = ServiceGroupConfiguration(services: services, logger: logger.quiet)
        let limit: @Sendable () -> Duration = { [stopTimeout = engine.stopTimeout] in
            stopTimeout.withLock { $0 } + Self.teardown
        }
        try await ServiceGroup(configuration: configuration).run(until: stop, within: limit) { hurry in
            let why = hurry == .secondSignal ? "A second signal" : "The stop takes longer than \(limit().text)"
            logger.notice("\(why): calls in flight are cancelled, and repeated after the next start.")
        } isStuck: {
            // As safe as a kill: what was not saved is delivered again.
            logger.warning(
                "Something still waits for a disk or a lock, and the daemon ends without it. What was not saved is repeated after the next start."
            )
            exit(ExitStatus.temporary.rawValue)
        }
    }

    /// Measures which consumers lag, for the status line: as often as the watchdog is fed, but not as part of
    /// its check.
    private func statusLine(_ handler: ControlHandler) -> BackgroundService {
        guard let interval = ServiceNotifier.watchdogInterval() else { return BackgroundService(work: nil) }
        return BackgroundService {
            while true {
                try await Task.sleep(for: interval / 2, clock: .loop)
                await onPool { await handler.measureBusyStores() }
            }
        }
    }

    /// Reports when something blocks the loop: at most every ten seconds, because the metrics count every
    /// stall.
    private func reportStalls() {
        let last = Locked<ContinuousClock.Instant?>(nil)
        // The loop exists: this code runs on it.
        try? HistoryLoop.shared().onStall { [logger] stall in
            let now = ContinuousClock.now
            let isDue = last.withLock { last in
                if let last, now - last < .seconds(10) { return false }
                last = now
                return true
            }
            if isDue { logger.report(.loopStalled, "The main loop was held up for \(stall).") }
        }
    }

    private func readiness(_ engine: Engine, _ listening: OneShotEvent) -> ReadinessService {
        ReadinessService {
            await listening.wait()
            await engine.waitUntilUp()
            await engine.removeUnusedStates()
        } isReady: {
            let line = engine.dependencies.status.line
            notifier.notify(.ready, .status(line))
            logger.report(.ready, "\(line).")
            // Earlier stalls delayed no consumer.
            reportStalls()
            // Most of the program's code that was read so far is needed only at start-up.
            cplatform_give_back_code()
        } isStopping: {
            // This way, the unit's `TimeoutStopSec` does not have to match the configuration.
            let limit = engine.stopTimeout.withLock { $0 } + Self.teardown
            notifier.notify(
                .stopping, .status("Stopping"), .extendTimeout(limit + ServiceGroup.lastWait + .seconds(2)))
            logger.report(.stopping, "historyd stops.")
        }
    }

    /// Processes everything there is, once, and returns whether all consumers are caught up.
    ///
    /// - Throws: `HistoryError` if a store cannot be opened or read, after the other stores are processed.
    package func runOnce() async throws -> Bool {
        level.level = loaded.configuration.logLevel
        LogLine.format = loaded.configuration.logFormat
        let assembly = try await onPool { () async throws in
            try Assembly(loaded, persisted: persisted, stateFolder: folder.path, logger: logger)
        }
        let status = LiveStatus(
            RuntimeStatus(stores: assembly.stores.count, hooks: assembly.hooks.count), notifier: notifier)
        let registry = HookRegistry(assembly.hooks)
        let deliveries = DeliveryLog(logger: logger)
        defer { deliveries.flush() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            for coprocess in assembly.coprocesses { group.addTask { await coprocess.run() } }
            let result: Result<Bool, any Error>
            do {
                result = .success(try await serveOnce(assembly, registry, status, deliveries))
            } catch {
                result = .failure(error)
            }
            for coprocess in assembly.coprocesses { coprocess.stop() }
            try await group.waitForAll()
            return try result.get()
        }
    }

    /// Processes each store even if another one fails, and reports each store that could not be used.
    private func serveOnce(
        _ assembly: Assembly, _ registry: HookRegistry, _ status: LiveStatus, _ deliveries: DeliveryLog
    ) async throws -> Bool {
        let outcomes = await withTaskGroup(of: (Int, Result<Bool, any Error>).self) { group in
            for (index, store) in assembly.stores.enumerated() {
                group.addTask {
                    do {
                        return (index, .success(try await serveOnce(store, registry, status, deliveries)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
        }
        var (isLevel, failure) = (true, (any Error)?.none)
        for outcome in outcomes {
            switch outcome {
            case .success(let isStoreLevel): isLevel = isLevel && isStoreLevel
            case .failure(let error):
                // The caller reports the last error when it exits. An error of the state folder is the same for
                // all stores.
                if let failure, "\(failure)" != "\(error)" { logger.report(.storeUnusable, "\(failure)") }
                failure = error
            }
        }
        if let failure { throw failure }
        return isLevel
    }

    /// - Returns: Whether the store's consumers are caught up.
    private func serveOnce(
        _ store: ServedStore, _ registry: HookRegistry, _ status: LiveStatus, _ deliveries: DeliveryLog
    ) async throws -> Bool {
        let stop = OneShotEvent()
        let log = PipelineLog(store: store.name, logger: logger, status: status, deliveries: deliveries) {
            stop.signal()
        }
        do {
            try await StoreRunner(
                store, hooks: registry, stateFolder: folder.path, reporter: log, stop: stop
            ).runOnce()
        } catch let error as HistoryError where error.code != .stateInUse && !error.isOfState {
            throw HistoryError(
                error.code, "Store \"\(store.name)\" cannot be used. \(error.message)", hint: error.hint,
                cause: error.cause)
        }
        return !stop.isSignaled
    }
}

extension LoadedConfiguration {
    fileprivate var consumers: Int { configuration.stores.reduce(0) { $0 + $1.consumers.count } }
}

extension Logger {
    /// For libraries whose own messages would fill the log.
    fileprivate var quiet: Logger {
        var logger = self
        logger.logLevel = .error
        return logger
    }
}
