/// How the loop, timers, tasks and callers get to the store's thread.
extension StoreSession {
    /// Calls a body on the store's thread, after its present work.
    nonisolated func perform(_ body: @escaping @Sendable (isolated StoreSession) -> Void) {
        executor.perform { self.assumeIsolated { body($0) } }
    }

    /// The same for one of its consumers.
    nonisolated func perform(for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void) {
        perform { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Calls a body on the store's thread after some time.
    nonisolated func schedule(
        after duration: Duration, file: StaticString = #fileID, line: UInt = #line,
        _ body: @escaping @Sendable (isolated StoreSession) -> Void
    ) -> StoreTimer {
        let timer = StoreTimer()
        let fire: @Sendable (isolated StoreSession) -> Void = { session in
            if !timer.isCancelled { body(session) }
        }
        if duration <= SerialThreadExecutor.longestPause {
            executor.perform(after: duration) { self.assumeIsolated { fire($0) } }
        } else {
            timer.begin(
                opened.loop.schedule(after: duration, file: file, line: line) { self.perform(fire) })
        }
        return timer
    }

    /// The same for one of its consumers.
    nonisolated func schedule(
        after duration: Duration, for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void
    ) -> StoreTimer {
        schedule(after: duration) { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Starts asynchronous work, and calls a body with its result on the store's thread.
    ///
    /// - Returns: False if nothing more may be started.
    nonisolated func work<T: Sendable>(
        _ body: @escaping @Sendable () async -> T,
        then: @escaping @Sendable (isolated StoreSession, T) -> Void
    ) -> Bool {
        tasks.run { await self.finish(await body(), then) }
    }

    /// The same for one of its consumers.
    nonisolated func work<T: Sendable>(
        _ body: @escaping @Sendable () async -> T, for author: String,
        then: @escaping @Sendable (ConsumerRunner, T) -> Void
    ) -> Bool {
        work(body) { session, result in if let runner = session.runners[author] { then(runner, result) } }
    }

    private func finish<T: Sendable>(_ result: T, _ then: @Sendable (isolated StoreSession, T) -> Void) {
        then(self, result)
    }

    /// How long callers wait for an answer of the store's thread: the control socket answers within a
    /// second.
    nonisolated static let answerTimeout: Duration = .milliseconds(300)
    /// The same for a call that concerns only one store and changes something in it.
    nonisolated static let actionTimeout: Duration = .milliseconds(900)

    /// Runs a query on the session. It does not wait for a thread that waits for a lock or a disk.
    ///
    /// - Throws: `HistoryError` with `.storeBusy`, caused by an `Unresponsive`, if there is no answer in
    ///   time, and with `.storeNotOpen` if the session has ended; what the body throws.
    nonisolated func ask<T: Sendable>(
        within limit: Duration = answerTimeout,
        _ body: @escaping @Sendable (isolated StoreSession) throws -> T
    ) async throws -> T {
        if let time = executor.busyTime, time >= limit { throw unresponsive(time) }
        let answer = try await firstAnswer(within: limit) { answer in
            perform { session in
                answer(
                    Result {
                        if session.isClosed { throw HistoryError.storeNotOpen }
                        return try body(session)
                    })
            }
        }
        guard let answer else { throw unresponsive(executor.busyTime ?? limit) }
        return answer
    }

    /// The store's thread has been busy with one thing for some time.
    struct Unresponsive: Error {
        let time: Duration
    }

    nonisolated func unresponsive(_ time: Duration) -> HistoryError {
        HistoryError(
            .storeBusy,
            "The store \"\(opened.store.path)\" has not answered for \(time.milliseconds) ms: it waits for a lock or for a disk, or reads much.",
            hint: "Try again.", cause: Unresponsive(time: time))
    }
}

/// Calls a handler of a store's session after some time, unless it is cancelled first.
final class StoreTimer: Sendable {
    /// Nil once it is cancelled.
    private let state = Locked<(timer: LoopTimer?, isCancelled: Bool)>((nil, false))

    /// The loop's timer may have fired already. The store's thread then finds that it was cancelled.
    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    func begin(_ timer: LoopTimer) { state.withLock { $0.timer = timer } }

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            return state.timer
        }?.cancel()
    }
}
