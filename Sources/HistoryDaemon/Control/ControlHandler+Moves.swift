import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

/// Consumers that an operator moves.
extension ControlHandler {
    /// Reports what a move would do and, unless it is a dry run, moves the consumer.
    func move(
        _ consumer: String, to text: String, in storeName: String?, skips: Bool, dryRun: Bool, _ peer: Peer
    ) async throws -> MoveReport {
        let store = try await store(storeName, with: consumer)
        let plan = try await store.control.retryingWhileBusy(attempts: 4) {
            try await store.control.planMove(of: consumer, to: try Self.target(text))
        }
        var report = MoveReport(
            store: store.name, consumer: consumer, from: plan.from.description, to: plan.to.description,
            transactions: plan.transactions, calls: plan.calls, isForward: plan.isForward, isDryRun: dryRun)
        if plan.isAtLeast { report.isAtLeast = true }
        if dryRun { return report }
        do {
            let moved = try await store.control.move(consumer, to: plan.to, skips: skips, by: "\(peer)")
            report.from = moved.from.description
        } catch let error as MoveRefused {
            throw ControlError(.badRequest, error.description)
        }
        return report
    }

    /// Parses a token, a time, or one end of the history.
    private static func target(_ text: String) throws(ControlError) -> MoveTarget {
        switch text {
        case "oldest": return .oldest
        case "newest": return .newest
        default:
            if let token = HistoryToken(text) { return .token(token) }
            if let time = HistoryTimestamp(iso8601: text, roundingUp: true) { return .time(time) }
            throw ControlError(
                .tokenInvalid,
                "\"\(text)\" is no position: name a token (\"<store id>:<number>\"), \"oldest\", \"newest\", or a date such as 2026-01-07T10:30."
            )
        }
    }
}
