import GRDB

/// What a cleanup would delete, what it would keep, and for whom.
public struct CleaningReport: Sendable, Equatable {
    /// The oldest token that works now.
    public let floor: HistoryToken
    /// The oldest token that would work afterwards; the same where nothing would go.
    public let floorAfter: HistoryToken
    public let newest: HistoryToken
    /// How many changes would be deleted.
    public let deleting: Int
    /// How many changes that everybody has had would be kept: those of mirroring authors, and of
    /// unlisted ones where these are not delivered.
    public let keepingByRule: Int
    /// Those who hold back the rest, the slowest first, with the changes that are kept for them.
    public let blockers: [Blocker]
    /// Those whose tokens would expire.
    public let passedBy: [CleaningPlan.Holder]

    public struct Blocker: Sendable, Equatable {
        public let holder: CleaningPlan.Holder
        /// The changes that it has not had.
        public let changes: Int
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
        blockers = try plan.blockers.map { holder in
            let changes = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM historyd_change WHERE id > ? AND kind & 3 <> 3",
                arguments: [holder.number ?? 0])
            return Blocker(holder: holder, changes: changes ?? 0)
        }
    }
}
