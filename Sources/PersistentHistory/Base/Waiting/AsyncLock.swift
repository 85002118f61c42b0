/// A lock that is held while its owner waits: actors are reentrant. One or a few have it at a time, and whoever waits for
/// it comes in order.
final class AsyncLock: Sendable {
    private struct State {
        var free: Int
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Locked<State>

    /// - Parameter free: How many may have it at a time.
    init(free: Int = 1) { state = Locked(State(free: free)) }

    /// Returns when the caller has the lock, which it gives back with `unlock`.
    func lock() async {
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

    func unlock() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.waiters.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiters.removeFirst()
        }?.resume()
    }
}
