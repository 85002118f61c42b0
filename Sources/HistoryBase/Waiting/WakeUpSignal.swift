/// Wakes one waiter. Notifications that come while it works count as one.
package struct WakeUpSignal: AsyncSequence, Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    package init() {
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    package func notify() { continuation.yield() }
    package func end() { continuation.finish() }
    package func makeAsyncIterator() -> AsyncStream<Void>.Iterator { stream.makeAsyncIterator() }
}

/// Wakes one waiter, which may wait with a timeout. Notifications that come while it works count as one,
/// for its next wait.
package final class WakeUp: Sendable {
    private let signal = Locked(OneShotEvent())

    package init() {}

    package func notify() { signal.withLock { $0 }.signal() }

    /// Returns when it is woken, on timeout, or when the task is cancelled.
    package func wait(atMost duration: Duration? = nil) async {
        let current = signal.withLock { $0 }
        if let duration { await current.sleep(for: duration) } else { await current.wait() }
        signal.withLock { if $0.isSignaled { $0 = OneShotEvent() } }
    }
}
