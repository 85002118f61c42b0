/// Whether something is to run, turned by one and heeded by another.
final class PowerSwitch: Sendable {
    private struct State {
        var isOn: Bool
        var turnedOn = OneShotEvent()
        var turnedOff = OneShotEvent()
    }

    private let state: Locked<State>

    init(isOn: Bool) { state = Locked(State(isOn: isOn)) }

    func turnOn() {
        state.withLock { state in
            if !state.isOn { state.turnedOff = OneShotEvent() }
            state.isOn = true
            return state.turnedOn
        }.signal()
    }

    /// Asks what runs to come to a good end.
    func turnOff() {
        state.withLock { state in
            if state.isOn { state.turnedOn = OneShotEvent() }
            state.isOn = false
            return state.turnedOff
        }.signal()
    }

    /// Waits until it is on.
    ///
    /// - Returns: A signal for its being turned off; nil if the task was cancelled.
    func waitUntilOn() async -> OneShotEvent? {
        while !Task.isCancelled {
            let (isOn, turnedOn, turnedOff) = state.withLock { ($0.isOn, $0.turnedOn, $0.turnedOff) }
            if isOn { return turnedOff }
            await turnedOn.wait()
        }
        return nil
    }
}
