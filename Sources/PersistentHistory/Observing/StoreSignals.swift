/// The signals of one store, from `StoreObserver.watch` or a `PollingObserver`, which are united until they are taken.
///
/// For one consumer: two would share the signals between them. The first signal comes at once where the store is
/// there (what was written before the watch counts). There will be no more when the observer is stopped, and where the
/// store cannot be watched any longer; watch it again then, after a while. Letting go of them ends the watch.
package final class StoreSignals: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var failure: ObserverError?
        var receiver: (@Sendable () -> Void)?
        /// The receiver was called, and has not begun yet.
        var isCalled = false
        var abandoned: (@Sendable () -> Void)?
    }

    private let state = Locked(State())
    /// There will be no more.
    let ended = OneShotEvent()
    private let poll: PollingObserver?

    package init(from poll: PollingObserver? = nil) { self.poll = poll }

    deinit { state.withLock { $0.abandoned }?() }

    /// Sets what is called when these signals are let go of.
    func onAbandoned(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.abandoned = action } }

    // MARK: Posting

    func post(_ signal: StoreSignal) {
        guard !signal.isEmpty else { return }
        let receiver = state.withLock { state in
            state.pending.formUnion(signal)
            defer { state.isCalled = true }
            return state.isCalled ? nil : state.receiver
        }
        receiver?()
    }

    /// No more signals after the pending one.
    func end(_ failure: ObserverError? = nil) {
        state.withLock { $0.failure = $0.failure ?? failure }
        // Whoever sets a receiver after this finds the end.
        ended.signal()
        state.withLock { $0.receiver }?()
    }

    /// Polls, where that makes the signals, until the task is cancelled.
    func run() async {
        guard let poll else { return }
        await onPool { await poll.run { self.post($0) } }
    }

    // MARK: Taking

    /// Why there will be no more signals, unless the observer was stopped.
    var failure: ObserverError? { state.withLock { $0.failure } }

    /// Sets what is called when there is a signal to take, or will be none any more, on the observer's thread, where it
    /// must not wait. For signals it is called again only after it has begun.
    func setReceiver(_ receiver: (@Sendable () -> Void)?) {
        let isPending = state.withLock { state in
            state.receiver = receiver
            state.isCalled = !state.pending.isEmpty
            return state.isCalled
        }
        if isPending || ended.isSignaled { receiver?() }
    }

    /// The receiver has begun.
    func receiverBegan() { state.withLock { $0.isCalled = false } }

    func take() -> StoreSignal {
        state.withLock { state in
            defer { state.pending = [] }
            return state.pending
        }
    }

    /// Waits until there is a signal, and takes it.
    ///
    /// - Returns: Nil if there will be none, or the task is cancelled.
    package func next(isolation actor: isolated (any Actor)? = #isolation) async throws(ObserverError)
        -> StoreSignal?
    {
        while true {
            // What was posted before the end is there now.
            let isOver = ended.isSignaled || Task.isCancelled
            let signal = take()
            if !signal.isEmpty { return signal }
            if isOver {
                if let failure { throw failure }
                return nil
            }
            let arrived = OneShotEvent()
            setReceiver { arrived.signal() }
            await arrived.wait()
            setReceiver(nil)
        }
    }

    /// Calls a body for each signal, on the observer's thread and as soon as the kernel reports it, until the task is
    /// cancelled or the observer is stopped. Instead of `next`.
    package func forEach(_ body: @escaping @Sendable () -> Void) async throws(ObserverError) {
        setReceiver {
            self.receiverBegan()
            if !self.take().isEmpty { body() }
        }
        await ended.wait()
        setReceiver(nil)
        if let failure { throw failure }
    }
}
