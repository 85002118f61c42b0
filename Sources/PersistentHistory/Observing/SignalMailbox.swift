/// Holds at most one signal for a consumer: what is posted before it is taken is united with it.
///
/// A receiver gets signals at once, by a call. For others the stream is the wake-up; what it wakes for is kept beside it.
final class SignalMailbox: Sendable {
    private struct Content {
        var pending: StoreSignal = []
        var isOver = false
        var failure: ObserverError?
        var receiver: Receiver?
    }

    /// The receiver, which is called on the observer's thread, and must not wait there.
    struct Receiver: Sendable {
        let signal: @Sendable (StoreSignal) -> Void
        /// There will be no more; with the reason, unless the observer was stopped.
        let end: @Sendable (ObserverError?) -> Void
    }

    private let content = Locked(Content())
    private let wakeUps: AsyncStream<Void>.Continuation

    /// - Returns: the mailbox, and its wake-ups. When the last holder of these lets go of them,
    ///   `onAbandoned` is called.
    static func make() -> (SignalMailbox, AsyncStream<Void>) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        return (SignalMailbox(wakeUps: continuation), stream)
    }

    private init(wakeUps: AsyncStream<Void>.Continuation) {
        self.wakeUps = wakeUps
    }

    func onAbandoned(_ action: @escaping @Sendable () -> Void) {
        wakeUps.onTermination = { _ in action() }
    }

    /// Signals go to the receiver from now on, that which is pending first.
    func deliver(to receiver: Receiver) {
        let (pending, isOver, failure) = content.withLock { content in
            content.receiver = receiver
            defer { content.pending = [] }
            return (content.pending, content.isOver, content.failure)
        }
        if !pending.isEmpty { receiver.signal(pending) }
        if isOver { receiver.end(failure) }
    }

    func post(_ signal: StoreSignal) {
        guard !signal.isEmpty else { return }
        let receiver = content.withLock { content in
            if content.receiver == nil { content.pending.formUnion(signal) }
            return content.receiver
        }
        if let receiver { receiver.signal(signal) } else { wakeUps.yield() }
    }

    /// No more signals after the pending one. Calls what waits for `onAbandoned`, so it must not
    /// be called with a lock held that this takes.
    func finish(throwing failure: ObserverError? = nil) {
        let receiver = content.withLock { content in
            content.failure = failure
            content.isOver = true
            return content.receiver
        }
        wakeUps.finish()
        receiver?.end(failure)
    }

    func take() -> StoreSignal {
        content.withLock { content in
            defer { content.pending = [] }
            return content.pending
        }
    }

    var failure: ObserverError? {
        content.withLock { $0.failure }
    }
}
