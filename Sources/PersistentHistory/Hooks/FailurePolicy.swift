/// What happens when a hook fails: how often it is tried again, how soon, and what then.
public struct FailurePolicy: Sendable, Hashable, Codable {
    /// What follows when every attempt has failed.
    public enum AfterLastAttempt: String, Sendable, Codable {
        /// The consumer waits, and the call is tried again at the longest delay.
        case hold
        /// The call is kept as a dead letter, and the consumer continues.
        case skip
    }

    /// The number of attempts, including the first, before `afterLastAttempt` applies.
    public let attempts: Int
    /// The delay before the second attempt; it doubles with each attempt.
    public let initialDelay: Duration
    /// The longest delay.
    public let maximumDelay: Duration
    /// What follows when every attempt has failed.
    public let afterLastAttempt: AfterLastAttempt

    /// How often a call is tried, after which delays, and what follows.
    public init(
        attempts: Int = 5, initialDelay: Duration = .milliseconds(100),
        maximumDelay: Duration = .seconds(30), afterLastAttempt: AfterLastAttempt = .hold
    ) {
        self.attempts = max(1, attempts)
        self.initialDelay = initialDelay
        self.maximumDelay = max(initialDelay, maximumDelay)
        self.afterLastAttempt = afterLastAttempt
    }

    package enum Decision: Sendable, Hashable {
        case retry(after: Duration)
        /// The last attempt has failed, and the consumer waits. This is reported once.
        case hold(retryAfter: Duration)
        case skip
    }

    /// What follows the `failed`th failed attempt (counted from 1): the delay doubles each time.
    package func decision(afterFailedAttempt failed: Int) -> Decision {
        if failed >= attempts {
            return afterLastAttempt == .skip ? .skip : .hold(retryAfter: maximumDelay)
        }
        let doublings = min(failed - 1, 40)
        let delay = initialDelay * (1 << doublings)
        return .retry(after: min(delay, maximumDelay))
    }
}
