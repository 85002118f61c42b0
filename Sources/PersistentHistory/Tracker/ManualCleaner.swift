/// Cleans a store's history when it is told to, and only as far as every author that must have had
/// it has got.
public actor ManualCleaner {
    private let cleaning: ManualCleaning

    /// - Parameter consumers: The authors that must have had a transaction before it is deleted.
    package init(path: String, stateFolder: String, consumers: Set<String>, rule: DeliveryRule) {
        var store = ServedStore(name: path, path: path, entities: nil, rule: rule, consumers: [])
        store.consumersElsewhere = consumers
        cleaning = ManualCleaning(store, stateFolder: stateFolder)
    }

    /// Deletes what every author has had that does more than write.
    ///
    /// - Returns: How much was deleted; nil where an author has not begun yet, which holds back everything.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func clean() async throws -> HistoryCleaner.Outcome? {
        let (report, outcome) = try await cleaning.clean()
        return report.blockers.contains { $0.holder.number == nil } ? nil : outcome
    }
}
