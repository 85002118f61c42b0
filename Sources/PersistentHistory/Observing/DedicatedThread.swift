internal import Glibc

/// Runs `body`, which may block, on a thread of its own, and returns when the thread has ended.
///
/// The threads of Swift's own pool are as many as processors; one that blocks is missing to all tasks.
func onThread(_ body: @escaping @Sendable () -> ObserverError?) async -> ObserverError? {
    enum Outcome: Sendable {
        case ended(pthread_t, ObserverError?)
        case notStarted(Int32)
    }
    let outcome = await withCheckedContinuation { (continuation: CheckedContinuation<Outcome, Never>) in
        let main = ThreadMain {
            let failure = body()
            continuation.resume(returning: .ended(pthread_self(), failure))
        }
        let status = start(main)
        if status != 0 { continuation.resume(returning: .notStarted(status)) }
    }
    switch outcome {
    case .notStarted(let number):
        return .failed(to: "start a thread", number)
    case .ended(let thread, let failure):
        // It has nothing left to do but return.
        pthread_join(thread, nil)
        return failure
    }
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
    if status != 0 { argument.release() }
    return status
}
