/// Holds at most one signal for a consumer: what is posted before it is taken is united with it.
///
/// The stream is only the bell; what it rings for is kept beside it.
final class SignalMailbox: Sendable {
    private struct Content {
        var pending: StoreSignal = []
        var failure: ObserverError?
    }

    private let content = Locked(Content())
    private let bell: AsyncStream<Void>.Continuation

    /// - Returns: the mailbox, and the bell to listen to. When the last holder of the bell lets go
    ///   of it, `onAbandoned` is called.
    static func make() -> (SignalMailbox, AsyncStream<Void>) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        return (SignalMailbox(bell: continuation), stream)
    }

    private init(bell: AsyncStream<Void>.Continuation) {
        self.bell = bell
    }

    func onAbandoned(_ action: @escaping @Sendable () -> Void) {
        bell.onTermination = { _ in action() }
    }

    func post(_ signal: StoreSignal) {
        guard !signal.isEmpty else { return }
        content.withLock { $0.pending.formUnion(signal) }
        bell.yield()
    }

    /// No more signals after the pending one. Calls what waits for `onAbandoned`, so it must not
    /// be called with a lock held that this takes.
    func finish(throwing failure: ObserverError? = nil) {
        content.withLock { $0.failure = failure }
        bell.finish()
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
