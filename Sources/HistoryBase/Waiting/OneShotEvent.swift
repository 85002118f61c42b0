/// An event that happens once and that many may wait for: that a part has started, or is asked to end.
///
/// Cancelling a task would also interrupt what still has to be saved. So a stop is requested first.
package final class OneShotEvent: Sendable {
    private struct State {
        var isSignaled = false
        var nextWaiter = 0
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Locked(State())

    package init() {}

    package var isSignaled: Bool { state.withLock { $0.isSignaled } }

    package func signal() {
        let waiters = state.withLock { state in
            state.isSignaled = true
            defer { state.waiters = [:] }
            return state.waiters.values
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when the event has happened, or the task is cancelled.
    package func wait() async {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isSignaled || Task.isCancelled { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }

    /// Runs an operation, cancels it when a stop is requested, and returns its result.
    package func cancelling<T: Sendable>(
        _ operation: @escaping @Sendable () async throws -> T
    ) async throws -> T {
        try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask { try await operation() }
            group.addTask {
                await self.wait()
                return nil
            }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
                group.cancelAll()
            }
            throw CancellationError()
        }
    }

    /// Sleeps, unless a stop is requested first.
    package func sleep(for duration: Duration) async {
        await cutShort { try await Task.sleep(for: duration, clock: .loop) }
    }

    /// Waits for something, unless a stop is requested first.
    package func cutShort(_ wait: @escaping @Sendable () async throws -> Void) async {
        do {
            try await cancelling { try await wait() }
        } catch {
            // Woken by the stop, as intended.
        }
    }
}

/// A switch that one part turns and another obeys.
package final class PowerSwitch: Sendable {
    private struct State {
        var isOn: Bool
        var turnedOn = OneShotEvent()
        var turnedOff = OneShotEvent()
    }

    private let state: Locked<State>

    package init(isOn: Bool) { state = Locked(State(isOn: isOn)) }

    package func turnOn() {
        state.withLock { state in
            if !state.isOn { state.turnedOff = OneShotEvent() }
            state.isOn = true
            return state.turnedOn
        }.signal()
    }

    /// Requests that the running part finishes.
    package func turnOff() {
        state.withLock { state in
            if state.isOn { state.turnedOn = OneShotEvent() }
            state.isOn = false
            return state.turnedOff
        }.signal()
    }

    /// Waits until the switch is on.
    ///
    /// - Returns: An event for its being turned off; nil if the task was cancelled.
    package func waitUntilOn() async -> OneShotEvent? {
        while !Task.isCancelled {
            let (isOn, turnedOn, turnedOff) = state.withLock { ($0.isOn, $0.turnedOn, $0.turnedOff) }
            if isOn { return turnedOff }
            await turnedOn.wait()
        }
        return nil
    }
}

/// Waits for a result for a limited time, and then cancels the work.
///
/// - Parameter limit: Nil for no limit.
/// - Returns: Nil if it takes longer.
package func within<T: Sendable>(
    _ limit: Duration?, _ body: @escaping @Sendable () async throws -> T?
) async throws -> T? {
    guard let limit else { return try await body() }
    return try await withThrowingTaskGroup(of: T?.self) { group in
        defer { group.cancelAll() }
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit, clock: .loop)
            return nil
        }
        return try await group.next() ?? nil
    }
}

/// Waits for something for a limited time, and then cancels it.
package func wait(atMost timeout: Duration, for body: @escaping @Sendable () async -> Void) async {
    // Only the sleep throws, when the caller is cancelled.
    _ = try? await within(timeout) { await body() }
}
