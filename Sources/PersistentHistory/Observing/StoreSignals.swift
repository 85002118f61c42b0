/// The signals of one store, from `StoreObserver.watch` or `PollingObserver.watch`.
///
/// For one consumer: two iterators would share the signals between them. The first signal comes at
/// once where the store is there (what was written before the watch counts). The sequence ends when
/// the observer is stopped or the consuming task cancelled, and it throws where the store cannot be
/// watched any longer; watch it again then, after a while. Letting go of it ends the watch.
package struct StoreSignals: AsyncSequence, Sendable {
    package typealias Element = StoreSignal
    package typealias Failure = ObserverError

    private enum Source: Sendable {
        case mailbox(SignalMailbox, wakeUps: AsyncStream<Void>)
        case polling(PollingObserver, path: String)
    }

    private let source: Source

    init(mailbox: SignalMailbox, wakeUps: AsyncStream<Void>) {
        source = .mailbox(mailbox, wakeUps: wakeUps)
    }

    init(polling observer: PollingObserver, path: String) {
        source = .polling(observer, path: path)
    }

    /// Lets signals go to a receiver from now on, instead of to an iterator.
    ///
    /// - Returns: False if they are polled for.
    func deliver(to receiver: SignalMailbox.Receiver) -> Bool {
        guard case .mailbox(let mailbox, _) = source else { return false }
        mailbox.deliver(to: receiver)
        return true
    }

    /// Calls a body with each signal, on the observer's thread and as soon as the kernel reports it, until the task is
    /// cancelled or the observer is stopped. Instead of an iterator.
    package func forEach(
        _ body: @escaping @Sendable (StoreSignal) -> Void
    ) async throws(ObserverError) {
        let isOver = OneShotEvent()
        let failure = Locked<ObserverError?>(nil)
        let receiver = SignalMailbox.Receiver(signal: body) { reason in
            failure.withLock { $0 = reason }
            isOver.signal()
        }
        if deliver(to: receiver) {
            await isOver.wait()
            if let failure = failure.withLock({ $0 }) { throw failure }
        } else {
            for try await signal in self { body(signal) }
        }
    }

    package func makeAsyncIterator() -> Iterator {
        switch source {
        case .mailbox(let mailbox, let wakeUps):
            Iterator(source: .mailbox(mailbox, wakeUps.makeAsyncIterator()))
        case .polling(let observer, let path): Iterator(source: .polling(observer.iterator(of: path)))
        }
    }

    package struct Iterator: AsyncIteratorProtocol {
        fileprivate enum Source {
            case mailbox(SignalMailbox, AsyncStream<Void>.Iterator)
            case polling(PollingObserver.Iterator)
        }

        fileprivate var source: Source

        /// Waits for a signal and takes it.
        package mutating func next() async throws(ObserverError) -> StoreSignal? {
            try await next(isolation: #isolation)
        }

        /// Waits for a signal and takes it.
        package mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(ObserverError) -> StoreSignal? {
            switch source {
            case .mailbox(let mailbox, var wakeUps):
                while await wakeUps.next(isolation: actor) != nil {
                    // Empty if this wake-up's signal was taken together with an earlier one.
                    let signal = mailbox.take()
                    if !signal.isEmpty { return signal }
                }
                if let failure = mailbox.failure { throw failure }
                return nil
            case .polling(var iterator):
                defer { source = .polling(iterator) }
                return await iterator.next(isolation: actor)
            }
        }
    }
}
