import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What a hook says about trying again, and what its policy makes of it.
@Suite struct FailureAdviceTests {
    private static let day = HookFailure.longestRetryAfter
    private static let holding = FailurePolicy(
        attempts: 3, initialDelay: .milliseconds(100), maximumDelay: .seconds(30))
    private static let skipping = FailurePolicy(
        attempts: 3, initialDelay: .milliseconds(100), maximumDelay: .seconds(30), afterLastAttempt: .skip)

    @Test(
        arguments: [
            (1, HookFailure.Advice.permanent, FailurePolicy.Decision.hold(retryAfter: .seconds(30)), .skip),
            (4, .permanent, .hold(retryAfter: .seconds(30)), .skip),
            (1, .retryAfter(.seconds(20)), .retry(after: .seconds(20)), .retry(after: .seconds(20))),
            (2, .retryAfter(.seconds(3600)), .retry(after: .seconds(3600)), .retry(after: .seconds(3600))),
            // Without a time, later is the longest delay.
            (1, .retryAfter(nil), .retry(after: .seconds(30)), .retry(after: .seconds(30))),
            // Attempts are counted as ever, and the time counts also while it is held.
            (3, .retryAfter(.seconds(20)), .hold(retryAfter: .seconds(20)), .skip),
            // Neither without a pause nor for ever.
            (1, .retryAfter(.zero), .retry(after: .milliseconds(100)), .retry(after: .milliseconds(100))),
            (
                1, .retryAfter(.seconds(-5)), .retry(after: .milliseconds(100)),
                .retry(after: .milliseconds(100))
            ),
            (1, .retryAfter(.seconds(1 << 40)), .retry(after: day), .retry(after: day)),
        ] as [(Int, HookFailure.Advice, FailurePolicy.Decision, FailurePolicy.Decision)])
    func decides(
        _ failed: Int, _ advice: HookFailure.Advice, _ held: FailurePolicy.Decision,
        _ skipped: FailurePolicy.Decision
    ) {
        #expect(Self.holding.decision(afterFailedAttempt: failed, advice: advice) == held)
        #expect(Self.skipping.decision(afterFailedAttempt: failed, advice: advice) == skipped)
    }

    /// What a program's closure throws is heeded as a plugin's answer is.
    @Test(
        arguments: [
            (HookFailure.permanent("no"), HookFailure.Advice.permanent),
            (HookFailure.retryAfter(.seconds(20), "later"), .retryAfter(.seconds(20))),
            (HookFailure(.refused, "no"), nil),
        ] as [(HookFailure, HookFailure.Advice?)])
    func closuresAdvise(_ error: HookFailure, _ advice: HookFailure.Advice?) async {
        let hook = ClosureHook(
            .observer { _ in throw error }, onExpired: nil, timeout: nil, reporter: SilentReporter())
        let transaction = HistoryTransaction(
            token: HistoryToken(store: .sample(), number: 1), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        let header = HookCallHeader(store: "s", consumer: "Main", hook: "p/h", hookID: UUID(), delivery: "d")
        let outcome = await hook.observe([ObserverCall(header: header, transaction: transaction, changes: [])])
        #expect(outcome.failure?.advice == advice)
        #expect(outcome.failure?.reason == .refused)
    }

    @Test func withoutAdviceNothingIsDifferent() {
        for policy in [Self.holding, Self.skipping] {
            for failed in 1...5 {
                #expect(
                    policy.decision(afterFailedAttempt: failed, advice: nil)
                        == policy.decision(afterFailedAttempt: failed))
            }
        }
    }
}
