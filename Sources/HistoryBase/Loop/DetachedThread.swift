internal import CPlatform
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

/// The new thread inherits a mask that blocks all signals: other threads handle them.
private func start(_ main: ThreadMain) -> Int32 {
    var all = sigset_t()
    var earlier = sigset_t()
    sigfillset(&all)
    // Signals that a thread causes itself must reach their handler: while blocked, they would end the
    // process.
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
