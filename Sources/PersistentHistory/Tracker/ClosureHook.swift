/// A hook that is a closure.
final class ClosureHook: HookEndpoint {
    enum Callback: Sendable {
        case observer(HookCallback)
        case merge(MergeHookCallback, contexts: [ReplicaMerger])
    }

    private let callback: Callback

    init(_ callback: Callback) { self.callback = callback }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        guard case .observer(let callback) = callback else { return ObserverOutcome(succeeded: calls.count) }
        for (index, call) in calls.enumerated() {
            guard !Task.isCancelled else { return ObserverOutcome(succeeded: index) }
            do {
                try await callback(call.changes.map { HookContext($0, of: call.transaction) })
            } catch {
                let failure = Self.failure(error, call.header)
                return ObserverOutcome(
                    succeeded: index, failure: failure.reason == .cancelled ? nil : failure)
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        guard case .merge(let callback, let contexts) = callback else { return .goOn }
        do {
            return try await callback(MergeHookInput(transactions: call.transactions, contexts: contexts))
        } catch {
            throw Self.failure(error, call.header)
        }
    }

    /// An error that a closure throws while the tracker stops is not a failure of the closure.
    private static func failure(_ error: any Error, _ header: HookCallHeader) -> HookFailure {
        HookFailure(
            Task.isCancelled ? .cancelled : .refused, "Hook \"\(header.hook)\" threw an error: \(error)")
    }
}
