import HistoryControl
import Logging
import PersistentHistory
import ServiceLifecycle

/// Serves one store. Where it cannot be watched it waits, and the others do not wait for it.
struct StoreService: Service {
    let runner: StoreRunner
    let watch: @Sendable () throws -> StoreSignals
    let reporter: any PipelineReporter
    let path: String
    let stop: OneShotEvent
    let gate: OneShotEvent
    /// Called at a stop of the daemon.
    let isStopping: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            var trouble = WatchTrouble()
            while !stop.isSignaled, !Task.isCancelled {
                do {
                    // To follow the store's path may wait for a disk.
                    let signals = try await onPool { () async throws -> StoreSignals in try watch() }
                    trouble.isOver()
                    return try await runner.run(watching: signals) { gate.signal() }
                } catch let error as ObserverError {
                    if trouble.isNews(error) { reporter.report(.watchFailed(error)) }
                    gate.signal()
                    await stop.sleepUntilRightsChange(of: path, atMost: trouble.delay())
                }
            }
        } onGracefulShutdown: {
            stop.signal()
            isStopping()
        }
    }
}

/// A store that could not be watched, perhaps several times in a row.
private struct WatchTrouble {
    private var failures = 0
    private var said: String?

    mutating func isOver() { said = nil }

    mutating func isNews(_ error: ObserverError) -> Bool {
        defer { said = error.message }
        return said != error.message
    }

    mutating func delay() -> Duration {
        failures += 1
        return Backoff.delay(afterFailures: failures, first: .milliseconds(500))
    }
}

/// Measures which consumers lag, for the status line: as often as the watchdog is fed, and not in its turn.
struct LagService: Service {
    let interval: Duration?
    let measure: @Sendable () async -> Void

    func run() async throws {
        guard let interval else { return try await gracefulShutdown() }
        await cancelWhenGracefulShutdown {
            while true {
                // It throws when the daemon stops.
                do { try await Task.sleep(for: interval / 2, clock: .loop) } catch { return }
                await measure()
            }
        }
    }
}

/// Notifies the service manager that the daemon is ready, once all parts are.
struct ReadinessService: Service {
    let waitUntilUp: @Sendable () async -> Void
    let isReady: @Sendable () -> Void
    let isStopping: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            await waitUntilUp()
            if !Task.isShuttingDownGracefully { isReady() }
            try await gracefulShutdown()
        } onGracefulShutdown: {
            isStopping()
        }
    }
}

/// Reads the configuration again at SIGHUP; what comes of it is in the journal.
struct ReloadService: Service {
    let signals: SignalLine
    let handler: ControlHandler

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            while try await signals.next() != nil {
                do {
                    _ = try await handler.reload()
                } catch {
                    // Reported already, with all errors: the old one stays in force.
                }
            }
        }
    }
}

/// Why a stop cancels calls in flight.
enum StopHurry: Sendable {
    case secondSignal, limit
}

extension ServiceGroup {
    /// Runs the services until a signal stops them and they have ended. A second signal shortens
    /// that: calls in flight are cancelled, and repeated after the next start.
    ///
    /// - Parameters:
    ///   - limit: How long the end may take; then, too, the services are cancelled.
    ///   - isHurried: Called then.
    /// - Throws: What a service throws, `SystemError`.
    func run(
        until signals: SignalLine, within limit: @escaping @Sendable () -> Duration,
        isHurried: @escaping @Sendable (StopHurry) -> Void
    ) async throws {
        let hurry = OneShotEvent()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                do {
                    try await self.run()
                } catch is CancellationError where hurry.isSignaled {
                    // That is how it ends then.
                }
            }
            tasks.addTask {
                if try await signals.next() == nil { return }
                await self.triggerGracefulShutdown()
                let isSecond = Locked(false)
                await wait(atMost: limit()) {
                    // Where signals cannot be read, the limit alone ends the wait.
                    guard let signal = try? await signals.next() else { return await OneShotEvent().wait() }
                    isSecond.withLock { $0 = signal > 0 }
                }
                if Task.isCancelled { return }
                hurry.signal()
                isHurried(isSecond.withLock { $0 } ? .secondSignal : .limit)
            }
            // The services' end, a failure, or the second signal: no more is waited for.
            defer { tasks.cancelAll() }
            try await tasks.next()
        }
    }
}

/// Serves the control socket.
struct ControlServer: Service {
    let listener: ControlListener
    let logger: Logger
    /// Opened when it accepts.
    let gate: OneShotEvent
    let handler: ControlHandler

    func run() async throws {
        defer { listener.remove() }
        let slots = ConnectionSlots()
        try await cancelWhenGracefulShutdown {
            try await HTTPServer([listener.descriptor], logger: logger).run {
                gate.signal()
            } serve: { channel, connection in
                try await ControlConnection(channel: channel, handler: handler, slots: slots).serve(connection)
            }
        }
    }
}

/// Serves the metrics, and nothing else, by TCP on sockets that the service manager has made: whoever reaches the port
/// may read them. There is no thread for it where there are no sockets.
struct MetricsServer: Service {
    let descriptors: [Int32]
    let handler: ControlHandler

    func run() async throws {
        guard !descriptors.isEmpty else {
            // A service that returns would end the whole group.
            try await gracefulShutdown()
            return
        }
        try await cancelWhenGracefulShutdown {
            try await HTTPServer(descriptors, logger: handler.logger).run { query in
                switch query.line {
                case "GET /metrics", "GET /v1/metrics":
                    HTTPAnswer(type: MetricsText.contentType, await handler.metrics())
                case let line where line.hasPrefix("GET "):
                    HTTPAnswer(status: 404, "Metrics are at /metrics.\n")
                default: HTTPAnswer(status: 405, "Metrics are read with GET.\n")
                }
            }
        }
    }
}
