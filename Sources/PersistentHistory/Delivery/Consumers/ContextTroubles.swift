/// The failed contexts of a consumer: how often each failed, why, and when it is retried.
///
/// A replica on a full disk opens well and fails only when it is written. So an attempt ends the trouble
/// only if it got as far as the attempt that failed.
struct ContextTroubles {
    /// How far an attempt got.
    enum Stage: Comparable {
        case opened, written
    }

    private struct Trouble {
        var pause = GrowingPause()
        /// The stage that is known to fail.
        var stage: Stage
        var error: HistoryError
        var retryAt: ContinuousClock.Instant
    }

    private var troubles: [String: Trouble] = [:]

    var isEmpty: Bool { troubles.isEmpty }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.values.first { $0.pause.isLasting }?.error }

    func error(of context: String) -> HistoryError? { troubles[context]?.error }

    /// How long until the next attempt; nil if no context is in trouble.
    func delay(at now: ContinuousClock.Instant) -> Duration? {
        troubles.values.map(\.retryAt).min().map { max(.zero, $0 - now) }
    }

    /// Whether a context's next attempt is not due yet.
    func isPaused(_ context: String, at now: ContinuousClock.Instant) -> Bool {
        troubles[context].map { $0.retryAt > now } ?? false
    }

    /// Counts a failure.
    ///
    /// - Parameter stage: The stage that was not reached.
    /// - Returns: The number of consecutive failures.
    mutating func fail(
        _ context: String, _ error: HistoryError, at stage: Stage, now: ContinuousClock.Instant
    ) -> Int {
        var trouble = troubles[context] ?? Trouble(stage: stage, error: error, retryAt: now)
        trouble.retryAt = now + trouble.pause.next()
        trouble.stage = max(trouble.stage, stage)
        trouble.error = error
        troubles[context] = trouble
        return trouble.pause.failures
    }

    /// Processes a success.
    ///
    /// - Returns: The number of failures before it, if it ends the trouble.
    mutating func succeed(_ context: String, at stage: Stage, now: ContinuousClock.Instant) -> Int? {
        guard let trouble = troubles[context] else { return nil }
        guard stage >= trouble.stage else {
            // Not proved yet. If nothing is left to write, this attempt is repeated.
            troubles[context]?.retryAt = now + Backoff.delay(afterFailures: trouble.pause.failures)
            return nil
        }
        troubles[context] = nil
        return trouble.pause.failures
    }

    /// Ends the pauses.
    mutating func tryNow(_ now: ContinuousClock.Instant) {
        for context in troubles.keys { troubles[context]?.retryAt = now }
    }

    mutating func forget() { troubles = [:] }
}
