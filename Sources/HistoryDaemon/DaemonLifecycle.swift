import PersistentHistory
import ServiceLifecycle

/// Work until the daemon stops, which cancels it.
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
    /// What was cancelled has ended after this time, unless it waits for a disk.
    static var lastWait: Duration { .seconds(5) }

    /// Runs the services until a signal stops them and they have ended. A second signal shortens
    /// that: calls in flight are cancelled, and repeated after the next start.
    ///
    /// - Parameters:
    ///   - limit: How long the end may take; then, too, the services are cancelled.
    ///   - isHurried: Called then.
    ///   - isStuck: Called where they have not ended either after `lastWait`: something waits for a disk.
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
                let timer = try HistoryLoop.shared().schedule(after: Self.lastWait) { isStuck() }
                lastResort.withLock { $0 = timer }
            }
            // The services' end, a failure, or the second signal: no more is waited for.
            defer { tasks.cancelAll() }
            try await tasks.next()
        }
    }
}
