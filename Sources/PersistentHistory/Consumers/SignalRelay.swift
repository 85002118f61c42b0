/// Hands a store's signals on to whoever waits at the moment.
///
/// Sessions with a store come and go, and each may be interrupted while it waits; a sequence of
/// signals ends with the task that consumes it. So one task consumes it for all of them.
final class SignalRelay: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var isOver = false
        var waiter: AsyncStream<Never>.Continuation?
    }

    private let state = Locked(State())

    /// Takes over signals until they end, or the task is cancelled.
    ///
    /// - Throws: `ObserverError` where the store can not be watched any longer.
    func run(_ signals: StoreSignals) async throws {
        defer { change { $0.isOver = true } }
        for try await signal in signals { change { $0.pending.formUnion(signal) } }
    }

    private func change(_ body: (inout State) -> Void) {
        let waiter = state.withLock { state in
            body(&state)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.finish()
    }

    /// Waits for a signal, and takes it. One at a time may wait.
    ///
    /// - Returns: Nil when there will be none any more, or the task was cancelled.
    func next() async -> StoreSignal? {
        while !Task.isCancelled {
            let (change, waiter) = AsyncStream<Never>.makeStream()
            let (signal, isOver) = state.withLock { state in
                defer { state.pending = [] }
                if state.pending.isEmpty { state.waiter = waiter }
                return (state.pending, state.isOver)
            }
            if !signal.isEmpty { return signal }
            if isOver { return nil }
            for await _ in change {}
        }
        return nil
    }
}
