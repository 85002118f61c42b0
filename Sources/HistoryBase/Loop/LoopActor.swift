/// The actor of everything that runs on the loop's thread: the owners of stores, their consumers,
/// plugins' processes.
///
/// Its members call each other synchronously. So the way from a descriptor's readiness to a plugin's pipe
/// is one chain of calls, and nothing on it needs a lock.
@globalActor package actor LoopActor {
    package static let shared = LoopActor()

    private static let executor = LoopExecutor()

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Self.sharedUnownedExecutor }
    package static var sharedUnownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Returns when the loop has completed a turn, so that others can continue meanwhile.
    @LoopActor package static func turn() async {}
}

/// Hands the actor's jobs to the loop.
private final class LoopExecutor: SerialExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        do throws(SystemError) { try HistoryLoop.shared().enqueue(job) } catch {
            // Every caller has used the loop before, and would have received the error then.
            fatalError("There is no loop: \(error)")
        }
    }

    func checkIsolated() {
        if isIsolatingCurrentContext() != true { fatalError("This is not the loop's thread.") }
    }

    func isIsolatingCurrentContext() -> Bool? { HistoryLoop.isCurrent }
}
