/// Wakes one waiter; notifications that come while it works are one.
struct WakeUpSignal: AsyncSequence, Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    func notify() { continuation.yield() }
    func end() { continuation.finish() }
    func makeAsyncIterator() -> AsyncStream<Void>.Iterator { stream.makeAsyncIterator() }
}

/// Wakes one waiter, which may also wait for a while only. What comes while it works counts as one, for its next
/// wait.
final class WakeUp: Sendable {
    private let signal = Locked(OneShotEvent())

    func notify() { signal.withLock { $0 }.signal() }

    /// Returns when it is woken, the time is over, or the task is cancelled.
    func wait(atMost duration: Duration? = nil) async {
        let current = signal.withLock { $0 }
        if let duration { await current.sleep(for: duration) } else { await current.wait() }
        signal.withLock { if $0.isSignaled { $0 = OneShotEvent() } }
    }
}
