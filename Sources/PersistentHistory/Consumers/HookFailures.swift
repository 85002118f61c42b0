/// The failures of a consumer's hooks: counted, told of, and at the end given up.
///
/// One hook fails at a time, for nothing goes on behind it.
struct HookFailures {
    private let consumer: String
    private let state: StateDatabase
    private let reporter: any PipelineReporter
    private var failing: (hook: String, attempts: Int)?

    init(of consumer: String, state: StateDatabase, reporter: any PipelineReporter) {
        self.consumer = consumer
        self.state = state
        self.reporter = reporter
    }

    mutating func forget() { failing = nil }

    /// Counts a failure, and tells.
    ///
    /// - Returns: What follows.
    mutating func count(_ failure: HookFailure, of hook: Hook, at token: HistoryToken) -> FailurePolicy.Decision
    {
        let attempt = failing.map { $0.hook == hook.name ? $0.attempts + 1 : 1 } ?? 1
        failing = (hook.name, attempt)
        let decision = hook.policy.decision(afterFailedAttempt: attempt)
        switch decision {
        case .retry(let delay):
            reporter.report(
                .hookFailed(
                    consumer: consumer, hook: hook.name, failure, token: token, attempt: attempt,
                    retryAfter: delay))
        case .hold(let delay):
            reporter.report(
                .hookHeld(
                    consumer: consumer, hook: hook.name, failure, token: token, attempts: attempt,
                    retryAfter: delay))
        case .skip:
            reporter.report(
                .deadLetterKept(
                    consumer: consumer, hook: hook.name, failure, token: token, attempts: attempt))
        }
        return decision
    }

    /// A hook has succeeded; tells, if it had failed.
    mutating func end(of hook: String, at token: HistoryToken) {
        guard let failing, failing.hook == hook else { return }
        reporter.report(
            .hookRecovered(consumer: consumer, hook: hook, token: token, attempts: failing.attempts))
        self.failing = nil
    }

    /// Keeps a call that is made no more.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    mutating func giveUp(
        _ hook: Hook, _ failure: HookFailure, _ header: HookCallHeader, _ call: JSONBytes
    ) throws {
        try state.deadLetters.keep(
            DeadLetter(
                consumer: consumer, hook: hook.name, delivery: header.delivery, reason: failure.message,
                attempts: failing?.attempts ?? 1, call: String(decoding: call.bytes, as: UTF8.self),
                keptAt: .now))
        failing = nil
    }
}
