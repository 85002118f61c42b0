/// Hands a store's signals on to whoever waits at the moment.
///
/// Sessions with a store come and go, and each may be interrupted while it waits; a sequence of
/// signals ends with the task that consumes it. So one task consumes it for all of them.
final class SignalRelay: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var isOver = false
        var waiter: CheckedContinuation<Void, Never>?
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
            return state.waiter.take()
        }
        waiter?.resume()
    }

    /// Waits for a signal, and takes it. One at a time may wait.
    ///
    /// - Returns: Nil when there will be none any more, or the task was cancelled.
    func next() async -> StoreSignal? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if !state.pending.isEmpty || state.isOver || Task.isCancelled { return true }
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            change { _ in }
        }
        let signal = state.withLock { state in
            defer { state.pending = [] }
            return state.pending
        }
        return signal.isEmpty ? nil : signal
    }
}
