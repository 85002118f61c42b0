/// Whether something is to run, turned by one and heeded by another.
final class PowerSwitch: Sendable {
    private struct State {
        var isOn: Bool
        /// What runs now, or ran last.
        var stop: OneShotEvent?
        var waiter: AsyncStream<Never>.Continuation?
    }

    private let state: Locked<State>

    init(isOn: Bool) { state = Locked(State(isOn: isOn)) }

    func turnOn() {
        let waiter = state.withLock { state in
            state.isOn = true
            return state.waiter.take()
        }
        waiter?.finish()
    }

    /// Asks what runs to come to a good end.
    func turnOff() {
        let stop = state.withLock { state in
            state.isOn = false
            return state.stop.take()
        }
        stop?.signal()
    }

    /// Waits until it is on. One at a time may wait.
    ///
    /// - Returns: A signal for its being turned off; nil if the task was cancelled.
    func waitUntilOn() async -> OneShotEvent? {
        while !Task.isCancelled {
            let (change, waiter) = AsyncStream<Never>.makeStream()
            let stop: OneShotEvent? = state.withLock { state in
                guard state.isOn else {
                    state.waiter = waiter
                    return nil
                }
                let stop = OneShotEvent()
                state.stop = stop
                return stop
            }
            if let stop { return stop }
            for await _ in change {}
        }
        return nil
    }
}
