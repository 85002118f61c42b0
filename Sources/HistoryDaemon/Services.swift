import PersistentHistory
import ServiceLifecycle

/// Hears of commits to all stores.
struct ObserverService: Service {
    let observer: StoreObserver

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await observer.run()
        } onGracefulShutdown: {
            observer.stop()
        }
    }
}

/// Serves one store.
struct StoreService: Service {
    let runner: StoreRunner
    let signals: StoreSignals
    let stop: StopSignal
    let gate: StartGate
    /// Called at a stop of the daemon.
    let isStopping: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await runner.run(watching: signals) { gate.open() }
        } onGracefulShutdown: {
            stop.request()
            isStopping()
        }
    }
}

/// Waits for something that happens once.
struct StartGate: Sendable {
    // An AsyncStream would end for all who wait when the task of one is cancelled.
    private let signal = StopSignal()

    func open() { signal.request() }

    /// Returns when it is open, or the task is cancelled.
    func wait() async { await signal.wait() }
}

/// Tells the service manager that the daemon is ready, once everything really is.
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
