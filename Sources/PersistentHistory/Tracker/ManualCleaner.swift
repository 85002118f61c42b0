/// Cleans a store's history when called, up to the position that all consumers have processed.
public actor ManualCleaner {
    private let cleaning: ManualCleaning

    /// - Parameter consumers: The authors that must have had a transaction before it is deleted.
    package init(path: String, stateFolder: String, consumers: Set<String>, rule: DeliveryRule) {
        var store = ServedStore(name: path, path: path, entities: nil, rule: rule, consumers: [])
        store.consumersElsewhere = consumers
        cleaning = ManualCleaning(store, stateFolder: stateFolder)
    }

    /// Deletes the history that every author except batch authors has processed.
    ///
    /// - Returns: What was deleted; nil if an author has no position yet, so that nothing may be deleted.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func clean() async throws -> HistoryCleaner.Outcome? {
        let (report, outcome) = try await cleaning.clean()
        return report.blockers.contains { $0.holder.number == nil } ? nil : outcome
    }
}
