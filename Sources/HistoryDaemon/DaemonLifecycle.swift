import PersistentHistory
import ServiceLifecycle

/// Work that runs until the daemon stops and cancels it.
struct BackgroundService: Service {
    /// Nil if there is nothing to do.
    let work: (@Sendable () async throws -> Void)?

    func run() async throws {
        // A service that returns would end the whole group.
        guard let work else { return try await gracefulShutdown() }
        do {
            try await cancelWhenGracefulShutdown { try await work() }
        } catch is CancellationError {
            // The daemon stops.
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

/// Why a stop cancels calls in flight.
enum StopHurry: Sendable {
    case secondSignal, limit
}

extension ServiceGroup {
    /// How long cancelled work may take to end. Only work that waits for a disk takes longer.
    static var lastWait: Duration { .seconds(5) }

    /// Runs the services until a signal stops them and they have ended. A second signal cancels calls in
    /// flight, which are
    /// repeated after the next start.
    ///
    /// - Parameters:
    ///   - signals: Where stop signals arrive.
    ///   - limit: How long the stop may take before the services are cancelled.
    ///   - isHurried: Called when the services are cancelled.
    ///   - isStuck: Called if the services have not ended `lastWait` later: something waits for a disk.
    /// - Throws: What a service throws, `SystemError`.
    func run(
        until signals: SignalLine, within limit: @escaping @Sendable () -> Duration,
        isHurried: @escaping @Sendable (StopHurry) -> Void, isStuck: @escaping @Sendable () -> Void
    ) async throws {
        let hurry = OneShotEvent()
        let lastResort = Locked<LoopTimer?>(nil)
        defer { lastResort.withLock(\.self)?.cancel() }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                do {
                    try await self.run()
                } catch is CancellationError where hurry.isSignaled {
                    // Cancellation is the expected end.
                }
            }
            tasks.addTask {
                if try await signals.next() == nil { return }
                await self.triggerGracefulShutdown()
                let isSecond = Locked(false)
                await wait(atMost: limit()) {
                    // If signals cannot be read, only the limit ends the wait.
                    guard let signal = try? await signals.next() else { return await OneShotEvent().wait() }
                    isSecond.withLock { $0 = signal > 0 }
                }
                if Task.isCancelled { return }
                hurry.signal()
                isHurried(isSecond.withLock { $0 } ? .secondSignal : .limit)
                let timer = try HistoryLoop.shared().schedule(after: Self.lastWait) { isStuck() }
                lastResort.withLock { $0 = timer }
            }
            // The wait ends when the services end, one fails, or the second signal arrives.
            defer { tasks.cancelAll() }
            try await tasks.next()
        }
    }
}
