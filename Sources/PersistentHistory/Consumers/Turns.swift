/// Lets one piece of work after the other through an actor's function that waits in between.
final class Turns: Sendable {
    private struct State {
        var isTaken = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    /// Returns when it is the caller's turn, which ends with `leave`.
    func enter() async {
        await withCheckedContinuation { waiter in
            let isFree = state.withLock { state in
                if state.isTaken {
                    state.waiters.append(waiter)
                    return false
                }
                state.isTaken = true
                return true
            }
            if isFree { waiter.resume() }
        }
    }

    func leave() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            if state.waiters.isEmpty {
                state.isTaken = false
                return nil
            }
            return state.waiters.removeFirst()
        }?.resume()
    }
}
