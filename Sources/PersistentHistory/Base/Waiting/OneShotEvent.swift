/// Something that happens once, and for which many may wait: that a part is up, or that it is asked to end.
///
/// Cancelling a task would also end what still has to be saved; a stop is kinder, and comes first.
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

    /// Returns when it has happened, or the task is cancelled.
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

    /// Runs an operation that is cancelled when a stop is requested, and gives what it returns then.
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

    /// Sleeps, unless a stop is requested before.
    package func sleep(for duration: Duration) async {
        await cutShort { try await Task.sleep(for: duration, clock: .loop) }
    }

    /// Waits for something, unless a stop is requested before.
    func cutShort(_ wait: @escaping @Sendable () async throws -> Void) async {
        do {
            try await cancelling { try await wait() }
        } catch {
            // Woken by the stop: that is what this is for.
        }
    }
}

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

/// Waits for a result, but no longer than some time: then the work is cancelled.
///
/// - Parameter limit: Nil for as long as it takes.
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

/// Waits for something, but no longer than some time: then it is cancelled.
package func wait(atMost timeout: Duration, for body: @escaping @Sendable () async -> Void) async {
    // Nothing in it throws but the sleep, which is cancelled with the caller.
    _ = try? await within(timeout) { await body() }
}
