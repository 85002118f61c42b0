/// A lock that is held while its owner waits: actors are reentrant. Whoever waits for it comes in order.
final class AsyncLock: Sendable {
    private struct State {
        var isLocked = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    /// Returns when the caller has the lock, which it gives back with `unlock`.
    func lock() async {
        await withCheckedContinuation { waiter in
            let isFree = state.withLock { state in
                if state.isLocked {
                    state.waiters.append(waiter)
                    return false
                }
                state.isLocked = true
                return true
            }
            if isFree { waiter.resume() }
        }
    }

    func unlock() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.waiters.isEmpty {
                state.isLocked = false
                return nil
            }
            return state.waiters.removeFirst()
        }?.resume()
    }
}
