/// A store's signals, for the current session: sessions come and go, and signals in between are kept.
final class SignalInbox: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var isOver = false
        var failure: ObserverError?
        var receiver: (@Sendable () -> Void)?
        /// The receiver was called, and has not begun yet.
        var isCalled = false
    }

    private let state = Locked(State())
    private let arrived = WakeUpSignal()
    /// Without signals there is nothing to wait for.
    private let stop: OneShotEvent

    init(_ stop: OneShotEvent) { self.stop = stop }

    /// Why there will be no more signals, unless the observer was stopped.
    var failure: ObserverError? { state.withLock { $0.failure } }

    /// Sets what is called when there is a signal to take. It is called again only after it has begun.
    func setReceiver(_ receiver: (@Sendable () -> Void)?) {
        state.withLock { state in
            state.receiver = receiver
            state.isCalled = false
        }
    }

    func post(_ signal: StoreSignal) {
        let (receiver, isCalled) = state.withLock { state in
            state.pending.formUnion(signal)
            defer { state.isCalled = true }
            return (state.receiver, state.isCalled)
        }
        guard let receiver else { return arrived.notify() }
        if !isCalled { receiver() }
    }

    /// The receiver has begun.
    func receiverBegan() { state.withLock { $0.isCalled = false } }

    func end(_ failure: ObserverError?) {
        state.withLock { state in
            state.isOver = true
            state.failure = failure
        }
        arrived.end()
        stop.signal()
    }

    /// Takes over what is polled for, until that ends.
    func run(_ signals: StoreSignals) async {
        do throws(ObserverError) {
            var iterator = signals.makeAsyncIterator()
            while let signal = try await iterator.next() { post(signal) }
            end(nil)
        } catch {
            end(error)
        }
    }

    func take() -> StoreSignal {
        state.withLock { state in
            defer { state.pending = [] }
            return state.pending
        }
    }

    /// Waits until there is a signal, or there will be none, or the task is cancelled; and takes it.
    func wait() async {
        let isThere = state.withLock { !$0.pending.isEmpty || $0.isOver }
        if !isThere { for await _ in arrived { break } }
        _ = take()
    }
}
