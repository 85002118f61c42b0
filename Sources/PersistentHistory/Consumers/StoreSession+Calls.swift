/// How the loop, timers, tasks and those who ask something get to the store's thread.
extension StoreSession {
    /// Calls a body on the store's thread, after what it does now.
    nonisolated func perform(_ body: @escaping @Sendable (isolated StoreSession) -> Void) {
        executor.perform { self.assumeIsolated { body($0) } }
    }

    /// The same with one of its consumers.
    nonisolated func perform(for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void) {
        perform { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Calls a body on the store's thread when some time is over.
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

    /// The same with one of its consumers.
    nonisolated func schedule(
        after duration: Duration, for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void
    ) -> StoreTimer {
        schedule(after: duration) { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Begins something that waits, and calls a body on the store's thread with what comes of it.
    ///
    /// - Returns: False if nothing more may be started.
    nonisolated func errand<T: Sendable>(
        _ body: @escaping @Sendable () async -> T,
        then: @escaping @Sendable (isolated StoreSession, T) -> Void
    ) -> Bool {
        errands.run { await self.finish(await body(), then) }
    }

    /// The same for one of its consumers.
    nonisolated func errand<T: Sendable>(
        _ body: @escaping @Sendable () async -> T, for author: String,
        then: @escaping @Sendable (ConsumerRunner, T) -> Void
    ) -> Bool {
        errand(body) { session, result in if let runner = session.runners[author] { then(runner, result) } }
    }

    private func finish<T: Sendable>(_ result: T, _ then: @Sendable (isolated StoreSession, T) -> Void) {
        then(self, result)
    }

    /// How long those who ask wait for an answer of the store's thread: the control socket answers within a second.
    nonisolated static let answerTimeout: Duration = .milliseconds(300)
    /// The same for what concerns one store alone, and changes something in it.
    nonisolated static let actionTimeout: Duration = .milliseconds(900)

    /// Asks something of the session. It does not wait for a thread that waits for a lock or a disk.
    ///
    /// - Throws: `HistoryError` with `.storeBusy`, caused by an `Unresponsive`, if there is no answer in time, and with
    ///   `.storeNotOpen` if the session has ended; what the body throws.
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

    /// The store's thread has been at work with one thing for some time.
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
