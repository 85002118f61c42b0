/// A lock that stays held while its owner suspends, because actors are reentrant. One or a few owners
/// have it at a time. Waiters get it in order.
package final class AsyncLock: Sendable {
    private struct State {
        var free: Int
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Locked<State>

    /// - Parameter free: How many owners may have it at a time.
    package init(free: Int = 1) { state = Locked(State(free: free)) }

    /// Returns when the caller has the lock, which it releases with `unlock`.
    package func lock() async {
        await withCheckedContinuation { waiter in
            let isFree = state.withLock { state in
                if state.free == 0 {
                    state.waiters.append(waiter)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { waiter.resume() }
        }
    }

    package func unlock() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.waiters.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiters.removeFirst()
        }?.resume()
    }
}
