/// Cleaning by hand, under the same rule as the daemon's own, whether one runs or not.
///
/// It works on the store and the state database as they are. Cursors only move forward, so that a
/// daemon that works meanwhile makes no plan wrong; neither do two cleanups at a time.
package struct ManualCleaning: Sendable {
    private let store: ServedStore
    private let stateFolder: String

    package init(_ store: ServedStore, stateFolder: String) {
        self.store = store
        self.stateFolder = stateFolder
    }

    /// What would be deleted, and what is kept for which consumer. No history is deleted.
    ///
    /// - Parameter force: Whether to wait for no consumer; `passedBy` names those that lose history.
    package func report(force: Bool = false) throws -> CleaningReport { try plan(force: force).report }

    /// Deletes what the report says.
    ///
    /// - Parameter shouldStop: Called between steps.
    /// - Returns: What was planned, and what was done.
    package func clean(force: Bool = false, shouldStop: @Sendable () -> Bool = { false }) async throws
        -> (report: CleaningReport, outcome: HistoryCleaner.Outcome)
    {
        try await WriterProbe.withLease(on: store.path, stateFolder: stateFolder, isUsedInProcess: true) {
            let (plan, report) = try plan(force: force)
            return (
                report, try await plan.carryOut(on: store, reporter: SilentReporter(), shouldStop: shouldStop)
            )
        }
    }

    private func plan(force: Bool) throws -> (plan: CleaningPlan, report: CleaningReport) {
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }  // Nothing was written.
        let plan = try plan(reader, force: force)
        return (plan, try reader.read { db in try CleaningReport(plan, rule: store.rule, db) })
    }

    private func plan(_ reader: HistoryReader, force: Bool) throws -> CleaningPlan {
        // Without a state, no consumer has a position; the state is not created for a cleanup.
        guard FileID(of: StateDatabase.path(folder: stateFolder, store: reader.storeID)) != nil else {
            let holders = store.mustHaveHad.map {
                CleaningPlan.Holder(consumer: $0, number: nil, standing: .zero)
            }
            return try CleaningPlan(
                holders, newest: try reader.newestToken().number, maximumDuration: store.maximumDuration,
                force: force
            ) { try store.young(through: $0, reader) }
        }
        let state = try StateDatabase(folder: stateFolder, store: reader.storeID, clock: store.clock)
        let plan = try CleaningPlan(store, source: reader, state: state, force: force)
        try state.close()
        return plan
    }
}
