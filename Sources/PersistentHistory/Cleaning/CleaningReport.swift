import GRDB

/// What a cleanup would delete, what it would keep, and for which consumers.
package struct CleaningReport: Sendable, Equatable {
    /// The oldest token that works now.
    package let floor: HistoryToken
    /// The oldest token that would work afterwards; the same where nothing would go.
    package let floorAfter: HistoryToken
    package let newest: HistoryToken
    /// How many changes would be deleted.
    package let deleting: Int
    /// How many changes that all have processed would be kept: those of mirroring authors, and of
    /// unlisted ones where these are not delivered.
    package let keepingByRule: Int
    /// Those that hold back the rest, the slowest first, with the changes that are kept for them.
    package let blockers: [Blocker]
    /// What is too young to be deleted, with the number of changes that are kept for that.
    package let young: Young?
    /// Those whose tokens would expire.
    package let passedBy: [CleaningPlan.Holder]

    package struct Young: Sendable, Equatable {
        package let history: YoungHistory
        package let changes: Int
    }

    package struct Blocker: Sendable, Equatable {
        package let holder: CleaningPlan.Holder
        /// The changes that it has not had.
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
