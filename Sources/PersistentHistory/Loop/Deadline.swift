extension SerialThreadExecutor {
    /// Does blocking work in its turn, and waits for it no longer than some time.
    ///
    /// - Returns: Nil if it takes longer. The work goes on, and its result is not used.
    func perform<T: Sendable>(
        within limit: Duration, _ body: @escaping @Sendable () throws -> T
    ) async throws -> T? {
        // What hangs is not waited for by more and more.
        if let time = busyTime, time >= limit { return nil }
        return try await firstAnswer(within: limit) { answer in
            perform { answer(Result { try body() }) }
        }
    }
}

/// Begins something that answers by a call, and waits for that no longer than some time.
///
/// A child task would be waited for to its end, however long it takes; this is not.
///
/// - Returns: Nil if it takes longer.
func firstAnswer<T: Sendable>(
    within limit: Duration, _ begin: (@escaping @Sendable (Result<T, any Error>) -> Void) -> Void
) async throws -> T? {
    let loop = try HistoryLoop.shared()
    return try await withCheckedThrowingContinuation { continuation in
        let waiting = Locked<CheckedContinuation<T?, any Error>?>(continuation)
        let timer = loop.schedule(after: limit) { waiting.withLock { $0.take() }?.resume(returning: nil) }
        begin { result in
            timer.cancel()
            waiting.withLock { $0.take() }?.resume(with: result.map { $0 })
        }
    }
}
