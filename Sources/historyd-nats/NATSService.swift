internal import CPlatform
import Foundation
import Glibc
import HistoryConfiguration
import HistoryControl
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Runs the program as a service until a signal stops it. Each reload starts it over.
struct NATSService: Sendable {
    /// The configuration file.
    let file: String
    let logger: Logger
    let level: LiveLogLevel
    let notifier: ServiceNotifier

    /// A command for the service.
    private enum Command: Sendable {
        case stop
        /// The system's clock was set.
        case clockStepped
        /// - answer: Receives the problems of the configuration; none if it is in force.
        case reload(answer: @Sendable ([String]) -> Void)
    }

    /// What follows once the workers have ended.
    private struct Ending {
        /// Nil at a stop.
        var configuration: NATSConfiguration?
        var answer: @Sendable ([String]) -> Void = { _ in }
        /// Whether the configuration is unchanged, and only the sessions start over.
        var isSame = false
    }

    func run(_ configuration: NATSConfiguration) async throws {
        let signals = try SignalLine([SIGTERM, SIGINT, SIGHUP])
        let (commands, sender) = AsyncStream<Command>.makeStream()
        let observer = try StoreObserver()
        let sockets = PassedSockets(environment: ProcessInfo.processInfo.environment)
        let listener = try StatusListener(
            path: StatusListener.path(), metrics: sockets.metrics, logger: logger
        ) { answer in
            sender.yield(.reload(answer: answer))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            group.addTask { try await notifier.run() }
            group.addTask {
                // The watchdog is fed only while the loop turns.
                try await WatchdogService(
                    interval: ServiceNotifier.watchdogInterval(), notifier: notifier, logger: logger
                ) { await LoopActor.turn() }.run()
            }
            group.addTask {
                while let signal = try await signals.next() {
                    sender.yield(signal == SIGHUP ? .reload { _ in } : .stop)
                }
            }
            ClockSteps.watch { sender.yield(.clockStepped) }
            if let listener { group.addTask { try await listener.run() } }
            try await serve(configuration, commands, observer, listener)
            group.cancelAll()
            while let result = await group.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) { throw error }
            }
        }
    }

    private func serve(
        _ first: NATSConfiguration, _ commands: AsyncStream<Command>, _ observer: StoreObserver,
        _ listener: StatusListener?
    ) async throws {
        var commands = commands.makeAsyncIterator()
        var ending = Ending(configuration: first)
        var isReload = false
        var reports: [WorkerStatus] = []
        let shown = Locked<[WorkerStatus]>([])
        let statusChanged: @Sendable () -> Void = { [notifier] in
            notifier.notify(.status(WorkerHealth.line(shown.withLock { $0 }.map(\.plain))))
        }
        while let configuration = ending.configuration {
            let line = Self.summary(of: configuration)
            let (answer, isSame) = (ending.answer, ending.isSame)
            ending.configuration = nil
            level.level = configuration.logLevel
            let program = Program(
                configuration: configuration, logger: logger, earlier: reports, statusChanged: statusChanged)
            try await program.run(observer) { running in
                reports = running
                shown.withLock { $0 = running }
                listener?.show(running, configuration)
                notifier.notify(.ready, .status(WorkerHealth.line(running.map(\.plain))))
                if isSame { return }
                logger.report(
                    isReload ? .natsReloaded : .natsReady,
                    isReload
                        ? "The configuration was read again: historyd-nats \(line)."
                        : "historyd-nats is ready: it \(line).")
                answer([])
                // Most of the program's code that was read so far is needed only at start-up.
                cplatform_give_back_code()
            } until: {
                ending = await next(&commands, configuration, statusChanged)
            }
            isReload = true
        }
    }

    /// Waits for a command that ends the workers. A reload with an invalid configuration does not.
    private func next(
        _ commands: inout AsyncStream<Command>.AsyncIterator, _ configuration: NATSConfiguration,
        _ statusChanged: () -> Void
    ) async -> Ending {
        while let command = await commands.next(isolation: #isolation) {
            if case .clockStepped = command {
                logger.notice("The system's clock was set. All sessions with the servers begin again.")
                return Ending(configuration: configuration, isSame: true)
            }
            guard case .reload(let answer) = command else { break }
            notifier.notify(.reloading, .status("Reading the configuration again"))
            do {
                return Ending(configuration: try NATSConfiguration.load(file: file), answer: answer)
            } catch {
                let problems = error.problems.map { "\($0)" }
                for problem in problems { logger.error("\(problem)") }
                logger.report(
                    .natsReloadRefused,
                    "The configuration has \(problems.count, "error"): the old one stays in force.")
                notifier.notify(.ready)
                statusChanged()
                answer(problems)
            }
        }
        notifier.notify(.stopping, .status("Stopping"))
        return Ending()
    }

    private static func summary(of configuration: NATSConfiguration) -> String {
        let (published, followed) = (configuration.publish.count, configuration.follow.count)
        return "publishes \(published, "store"), follows \(followed, "stream")"
    }
}
