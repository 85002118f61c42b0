import GRDB

/// Manual cleaning, by the same rule as the daemon's, whether a daemon runs or not.
///
/// It works directly on the store and the state database. Cursors only move forward, so a daemon or
/// another cleanup that works at the same time does not invalidate a plan.
package struct ManualCleaning: Sendable {
    private let store: ServedStore
    private let stateFolder: String

    package init(_ store: ServedStore, stateFolder: String) {
        self.store = store
        self.stateFolder = stateFolder
    }

    /// What would be deleted, and what is kept for which consumer. No history is deleted.
    ///
    /// - Parameter force: Whether to ignore all consumers; `passedBy` names those that lose history.
    package func report(force: Bool = false) throws -> CleaningReport { try plan(force: force).report }

    /// Deletes what the report says.
    ///
    /// - Parameter shouldStop: Called between steps.
    /// - Returns: The plan and its outcome.
    package func clean(force: Bool = false, shouldStop: @Sendable () -> Bool = { false }) async throws
        -> (report: CleaningReport, outcome: HistoryCleaner.Outcome)
    {
        try await WriterProbe.withLease(on: store.path, stateFolder: stateFolder, isUsedInProcess: true) {
            let (plan, report) = try plan(force: force)
            return (
                report,
                try await plan.carryOut(
                    on: store, reporter: SilentReporter(), timeout: HistoryCleaner.timeout,
                    shouldStop: shouldStop)
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
        // Without a state, no consumer has a position. A cleanup does not create the state.
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

/// What a cleanup would delete, what it would keep, and for which consumers.
package struct CleaningReport: Sendable, Equatable {
    /// The oldest token that is valid now.
    package let floor: HistoryToken
    /// The oldest valid token afterwards; the same if nothing would be deleted.
    package let floorAfter: HistoryToken
    package let newest: HistoryToken
    /// How many changes would be deleted.
    package let deleting: Int
    /// How many changes that all have processed would be kept: those of mirroring authors, and of
    /// unlisted ones if these are not delivered.
    package let keepingByRule: Int
    /// The consumers that hold back the rest, the slowest first, with the changes that are kept for them.
    package let blockers: [Blocker]
    /// What is too young to be deleted, with the number of changes that are kept for that reason.
    package let young: Young?
    /// The consumers whose tokens would expire.
    package let passedBy: [CleaningPlan.Holder]

    package struct Young: Sendable, Equatable {
        package let history: YoungHistory
        package let changes: Int
    }

    package struct Blocker: Sendable, Equatable {
        package let holder: CleaningPlan.Holder
        /// The changes that it has not received.
        package let changes: Int
    }

    init(_ plan: CleaningPlan, rule: DeliveryRule, _ db: Database) throws {
        let header = try HistoryHeader(db)
        let limit = min(plan.number ?? 0, header.newest)
        floor = HistoryToken(store: header.storeID, number: header.floor)
        floorAfter = HistoryToken(store: header.storeID, number: max(header.floor, limit))
        newest = HistoryToken(store: header.storeID, number: header.newest)
        passedBy = plan.passedBy

        var deleting = 0
        var keeping = 0
        var covered = CoveredOrigins(rule)
        let rows = try Row.fetchCursor(
            db, sql: "SELECT origin FROM historyd_change WHERE id <= ? AND kind & 3 <> 3 ORDER BY id",
            arguments: [limit])
        while let row = try rows.next() {
            if covered.contain(row["origin"]) { deleting += 1 } else { keeping += 1 }
        }
        self.deleting = deleting
        keepingByRule = keeping
        young = try plan.young.map { young in
            let changes = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM historyd_change WHERE id >= ? AND kind & 3 <> 3",
                arguments: [young.first])
            return Young(history: young, changes: changes ?? 0)
        }
        blockers = try plan.blockers.map { holder in
            let changes = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM historyd_change WHERE id > ? AND kind & 3 <> 3",
                arguments: [holder.number ?? 0])
            return Blocker(holder: holder, changes: changes ?? 0)
        }
    }
}

/// Cleans a store's history when called, up to the position that all consumers have processed.
///
/// It does not wait for an author that has not moved for longer than the tracker's `maximumDuration`.
public actor ManualCleaner {
    private let cleaning: ManualCleaning
    private let reporter: any PipelineReporter

    /// - Parameter store: The store as the tracker serves it. All its authors and feeds must have
    ///   received a transaction before it is deleted.
    init(_ store: ServedStore, stateFolder: String, reporter: any PipelineReporter = SilentReporter()) {
        cleaning = ManualCleaning(store, stateFolder: stateFolder)
        self.reporter = reporter
    }

    /// The authors and feeds for which history is kept now, the slowest first: those without a position
    /// yet, and those that have not processed everything.
    ///
    /// - Throws: `HistoryError`.
    public func blockers() async throws -> [String] {
        try await onPool { [cleaning] in try cleaning.report().blockers.map(\.holder.name) }
    }

    /// Deletes the history that every author except batch authors has processed.
    ///
    /// - Returns: What was deleted; nil if an author has no position yet, so that nothing may be deleted.
    ///   The tracker's reporter then gets its name, and `blockers()` names all for which something is
    ///   kept.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func clean() async throws -> HistoryCleaner.Outcome? {
        let (report, outcome) = try await cleaning.clean()
        let blockers = report.blockers.filter { $0.holder.number == nil }.map(\.holder.name)
        if blockers.isEmpty { return outcome }
        reporter.report(.cleaningBlocked(by: blockers))
        return nil
    }
}
