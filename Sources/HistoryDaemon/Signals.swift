import PersistentHistory
import ServiceLifecycle

/// Reads the configuration again at SIGHUP; what comes of it is in the journal.
struct ReloadService: Service {
    let signals: SignalLine
    let steward: Steward

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            while try await signals.next() != nil {
                do {
                    _ = try await steward.reload()
                } catch {
                    // Told already, with all that is wrong: the old one stays in force.
                }
            }
        }
    }
}

extension ServiceGroup {
    /// Runs the services until a signal tells them to come to an end, and they have. A second signal shortens
    /// that: what is under way is broken off, and made again after the next start.
    ///
    /// - Parameter isHurried: Called at the second signal.
    /// - Throws: What a service throws, `SystemError`.
    func run(until signals: SignalLine, isHurried: @escaping @Sendable () -> Void) async throws {
        let hurry = StopSignal()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                do {
                    try await self.run()
                } catch is CancellationError where hurry.isRequested {
                    // That is how it ends then.
                }
            }
            tasks.addTask {
                if try await signals.next() == nil { return }
                await self.triggerGracefulShutdown()
                if try await signals.next() == nil { return }
                hurry.request()
                isHurried()
            }
            // The services' end, a failure, or the second signal: no more is waited for.
            defer { tasks.cancelAll() }
            try await tasks.next()
        }
    }
}
