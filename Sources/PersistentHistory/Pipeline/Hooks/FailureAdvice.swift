/// What a failed hook says about retries.
extension HookFailure {
    /// Whether and when a failed call is worth another attempt.
    public enum Advice: Sendable, Hashable {
        /// The call may succeed after this time, at most `longestRetryAfter`. Nil leaves the time to the
        /// hook's policy, which waits for its longest delay.
        case retryAfter(Duration?)
        /// The call will never succeed: the policy's action after the last attempt is taken at once.
        case permanent
    }

    /// The longest time after which a hook that asks for more time is retried: a day.
    public static let longestRetryAfter: Duration = .seconds(86_400)

    /// A temporary failure: the call is repeated after a time. A hook's closure throws it.
    ///
    /// The attempt counts, so a policy that skips does so after its usual number of attempts.
    public static func retryAfter(_ time: Duration?, _ message: String) -> HookFailure {
        HookFailure(.refused, message, advice: .retryAfter(time))
    }

    /// A permanent failure. A hook's closure throws it.
    public static func permanent(_ message: String) -> HookFailure {
        HookFailure(.refused, message, advice: .permanent)
    }
}

extension FailurePolicy {
    /// What follows the `failed`th failed attempt (counted from 1).
    package func decision(afterFailedAttempt failed: Int, advice: HookFailure.Advice?) -> Decision {
        switch advice {
        case nil: return decision(afterFailedAttempt: failed)
        case .permanent: return decision(afterFailedAttempt: max(failed, attempts))
        case .retryAfter(let time):
            // Not sooner than without advice: a hook that asks for no pause still gets one.
            let delay = min(max(time ?? maximumDelay, initialDelay), HookFailure.longestRetryAfter)
            return switch decision(afterFailedAttempt: failed) {
            case .retry: .retry(after: delay)
            case .hold: .hold(retryAfter: delay)
            case .skip: .skip
            }
        }
    }
}
