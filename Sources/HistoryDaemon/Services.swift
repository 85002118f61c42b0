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
