import DequeModule

/// Limits how many processes for single calls run at a time to what the descriptors allow. Further
/// callers wait; no call fails because of it.
package final class ProcessBudget: Sendable {
    package static let shared = ProcessBudget(.shared)

    /// Three pipes and the process itself, and during its start the other ends of the pipes.
    static let descriptors = 7

    private struct State {
        var running = 0
        var waiters: Deque<OneShotEvent> = []
    }

    private let descriptors: DescriptorBudget
    private let state = Locked(State())

    package init(_ descriptors: DescriptorBudget) { self.descriptors = descriptors }

    /// How many may run now. One is always allowed: its descriptors are among those that stores leave for
    /// everything else.
    private var most: Int { max(1, descriptors.forProcesses / Self.descriptors) }

    /// How many run.
    var running: Int { state.withLock { $0.running } }

    /// Returns when the caller has a turn, which it returns with `end`.
    ///
    /// - Returns: False if the task was cancelled first. It then has no turn.
    package func begin() async -> Bool {
        let most = most
        let turn = OneShotEvent()
        let isFree = state.withLock { state in
            if state.waiters.isEmpty, state.running < most {
                state.running += 1
                return true
            }
            state.waiters.append(turn)
            return false
        }
        if isFree { return true }
        await turn.wait()
        return state.withLock { state in
            guard let place = state.waiters.firstIndex(where: { $0 === turn }) else { return true }
            state.waiters.remove(at: place)
            return false
        }
    }

    package func end() {
        let most = most
        let next = state.withLock { state in
            state.running -= 1
            var next: [OneShotEvent] = []
            while state.running < most, let waiter = state.waiters.popFirst() {
                state.running += 1
                next.append(waiter)
            }
            return next
        }
        for turn in next { turn.signal() }
    }
}
