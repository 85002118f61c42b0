internal import CLinux
internal import Glibc

/// Starts a thread, which is never joined.
///
/// - Returns: 0, or an errno.
package func startThread(_ body: @escaping @Sendable () -> Void) -> Int32 {
    start(ThreadMain(body: body))
}

private final class ThreadMain: Sendable {
    let body: @Sendable () -> Void

    init(body: @escaping @Sendable () -> Void) {
        self.body = body
    }
}

/// Signals are for other threads: the new one inherits a mask that blocks all of them.
private func start(_ main: ThreadMain) -> Int32 {
    var all = sigset_t()
    var earlier = sigset_t()
    sigfillset(&all)
    // What a thread does to itself finds its handler: while they are blocked, such a signal ends the process.
    for signal in [SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP] { sigdelset(&all, signal) }
    pthread_sigmask(SIG_SETMASK, &all, &earlier)
    defer { pthread_sigmask(SIG_SETMASK, &earlier, nil) }

    let argument = Unmanaged.passRetained(main)
    var thread = pthread_t()
    let status = pthread_create(
        &thread, nil,
        { argument in
            if let argument { Unmanaged<ThreadMain>.fromOpaque(argument).takeRetainedValue().body() }
            return nil
        }, argument.toOpaque())
    if status == 0 { pthread_detach(thread) } else { argument.release() }
    return status
}

/// Everything that runs on the loop's thread: the owners of stores, their consumers, plugins' processes.
///
/// They call each other synchronously. So the way from the readiness of a descriptor to a plugin's pipe is one
/// chain of calls, and nothing that lies on it needs a lock.
@globalActor package actor LoopActor {
    package static let shared = LoopActor()

    private static let executor = LoopExecutor()

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Self.sharedUnownedExecutor }
    package static var sharedUnownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Returns when the loop has completed a turn: while it does that, passes can continue.
    @LoopActor package static func turn() async {}
}

/// Hands the actor's jobs to the loop.
private final class LoopExecutor: SerialExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        do throws(SystemError) { try HistoryLoop.shared().enqueue(job) } catch {
            // Every caller has used the loop before, and got the error then.
            fatalError("There is no loop: \(error)")
        }
    }

    func checkIsolated() {
        if isIsolatingCurrentContext() != true { fatalError("This is not the loop's thread.") }
    }

    func isIsolatingCurrentContext() -> Bool? { HistoryLoop.isCurrent }
}
