final class ClosureHook: HookEndpoint {
    enum Callback: Sendable {
        case observer(HookCallback)
        case merge(MergeHookCallback, contexts: [any HistoryContext])
    }

    private let callback: Callback
    private let onExpired: ExpiryCallback?
    private let timeout: Duration?
    private let reporter: any PipelineReporter

    init(
        _ callback: Callback, onExpired: ExpiryCallback?, timeout: Duration?, reporter: any PipelineReporter
    ) {
        self.callback = callback
        self.onExpired = onExpired
        self.timeout = timeout
        self.reporter = reporter
    }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        guard case .observer(let callback) = callback else { return ObserverOutcome(succeeded: calls.count) }
        for (index, call) in calls.enumerated() {
            guard !Task.isCancelled else { return ObserverOutcome(succeeded: index) }
            do throws(HookFailure) {
                try await attempt(call.header) {
                    try await callback(call.changes.map { HookContext($0, of: call.transaction) })
                }
            } catch {
                return ObserverOutcome(succeeded: index, failure: error.reason == .cancelled ? nil : error)
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    /// A closure gets its transactions whole: one that merges them by itself could lose a part.
    var takesParts: Bool { false }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        guard case .merge(let callback, let contexts) = callback else { return .goOn }
        return try await attempt(call.header) {
            try await callback(MergeHookInput(transactions: call.transactions, contexts: contexts))
        }
    }

    /// A loss without a closure for it is reported.
    func expired(_ call: ExpiredCall) async throws(HookFailure) {
        let expiry = call.expiry
        guard let onExpired else {
            return reporter.report(
                .lossUnheard(consumer: call.header.consumer, hook: call.header.hook, expiry))
        }
        try await attempt(call.header) { try await onExpired(expiry) }
    }

    private struct TimedOut: Error {}

    /// Calls a closure. One that takes too long is cancelled, and waited for: a task cannot be abandoned.
    private func attempt<T: Sendable>(
        _ header: HookCallHeader, _ body: @escaping @Sendable () async throws -> T
    ) async throws(HookFailure) -> T {
        do {
            guard let timeout else { return try await body() }
            return try await withThrowingTaskGroup(of: T?.self) { group in
                group.addTask { try await body() }
                group.addTask {
                    try await Task.sleep(for: timeout, clock: .loop)
                    return nil
                }
                defer { group.cancelAll() }
                guard let result = try await group.next() ?? nil else { throw TimedOut() }
                return result
            }
        } catch is TimedOut {
            throw HookFailure(.timedOut, "Hook \"\(header.hook)\" did not return within \(timeout ?? .zero).")
        } catch {
            // What a closure throws while the tracker stops is no failure of its own.
            throw HookFailure(
                Task.isCancelled ? .cancelled : .refused, "Hook \"\(header.hook)\" threw an error: \(error)")
        }
    }
}
