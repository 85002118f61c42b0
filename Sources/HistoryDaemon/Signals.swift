import PersistentHistory
import ServiceLifecycle

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
