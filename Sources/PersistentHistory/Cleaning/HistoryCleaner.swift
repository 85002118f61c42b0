import GRDB

/// Deletes history that everybody has had, in steps so small that a writer does not feel them.
///
/// The floor moves to the goal with the first step: from then on a token below it has expired, and
/// nobody reads a transaction that is half deleted. How far the deleting itself got stands beside
/// it, so that a cleanup that was interrupted is taken up again.
public struct HistoryCleaner: Sendable {
    /// Changes looked at in one step: a few milliseconds of the write lock.
    static let stepSize = 250
    /// How often a lock is asked for in vain, at growing intervals, before a turn is given up.
    static let mostRefusals = 6

    let path: String
    let rule: DeliveryRule

    public init(path: String, rule: DeliveryRule) {
        self.path = path
        self.rule = rule
    }

    public struct Outcome: Sendable, Equatable {
        /// Changes that were deleted.
        public var deleted = 0
        /// The oldest token that still works.
        public var floor: HistoryToken
    }

    /// Deletes changes up to a place, but not those of authors that the rule does not cover.
    ///
    /// - Parameters:
    ///   - limit: The number of a token that everybody has passed.
    ///   - shouldStop: Asked between steps.
    /// - Throws: `HistoryError`.
    public func clean(
        through limit: Int64, shouldStop: @Sendable () -> Bool = { false }
    ) async throws -> Outcome {
        let queue = try StoreConnection.open(path, .write, patience: 0)
        var deleted = 0
        var refusals = 0
        while !shouldStop() {
            do {
                let step = try HistoryError.translating(path) {
                    try queue.inTransaction(.immediate) { db in try Step(db, limit: limit, rule: rule) }
                }
                deleted += step.deleted
                refusals = 0
                if step.isLast { break }
                // Writers that wait for the lock come first.
                await Task.yield()
            } catch let error as HistoryError where error.code == .storeBusy && refusals < Self.mostRefusals {
                refusals += 1
                try await Task.sleep(for: Backoff.delay(afterFailures: refusals))
            }
        }
        return try HistoryError.translating(path) { [deleted] in
            let header = try queue.read { db in try HistoryHeader(db) }
            try queue.close()
            return Outcome(deleted: deleted, floor: HistoryToken(store: header.storeID, number: header.floor))
        }
    }

    /// One transaction of the cleaner.
    private struct Step {
        private(set) var deleted = 0
        private(set) var isLast = true

        init(_ db: Database, limit: Int64, rule: DeliveryRule) throws {
            let header = try HistoryHeader(db)
            let goal = min(limit, header.newest)
            let position =
                try Int64.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'cleaned'") ?? 0
            guard goal > position else { return }

            var end = position
            var going: [Int64] = []
            var known: (origin: DatabaseValue, goes: Bool)?
            var count = 0
            let rows = try Row.fetchCursor(
                try db.cachedStatement(
                    sql:
                        "SELECT id, origin, kind & 3 = 3 AS void FROM historyd_change WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
                ),
                arguments: [position, goal, HistoryCleaner.stepSize])
            while let row = try rows.next() {
                end = row["id"]
                count += 1
                let origin: DatabaseValue = row["origin"]
                if known?.origin != origin { known = (origin, rule.covers(Self.author(origin))) }
                if known?.goes == true || row["void"] { going.append(end) }
            }
            isLast = count < HistoryCleaner.stepSize
            for id in going {
                // The newest change is only emptied: its number must not be given again.
                let sql =
                    id == header.newest
                    ? "UPDATE historyd_change SET origin = 0, kind = 3, object = NULL, detail = NULL WHERE id = ?"
                    : "DELETE FROM historyd_change WHERE id = ?"
                try db.cachedStatement(sql: sql).execute(arguments: [id])
            }
            deleted = going.count
            // An emptied change is deleted when it is the newest no longer.
            let cleaned = isLast ? min(goal, header.newest - 1) : end
            try db.execute(
                sql: "INSERT OR REPLACE INTO historyd_store VALUES ('floor', ?), ('cleaned', ?)",
                arguments: [max(goal, header.floor), max(cleaned, position)])
        }

        private static func author(_ origin: DatabaseValue) -> String? {
            guard case .string(let text) = origin.storage else { return nil }
            return Origin.declared(text).author
        }
    }
}
