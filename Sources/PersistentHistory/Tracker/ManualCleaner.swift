/// Cleans a store's history when called, up to the position that all consumers have processed.
///
/// An author that has not moved for longer than the tracker's `maximumDuration` is not waited for.
public actor ManualCleaner {
    private let cleaning: ManualCleaning

    /// - Parameter store: As a tracker serves it: all its authors and feeds must have had a transaction before it is
    ///   deleted.
    init(_ store: ServedStore, stateFolder: String) {
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
