import GRDB

/// One transaction of the cleaner.
struct CleaningStep {
    /// Rows that were deleted or emptied.
    private(set) var done = 0
    /// Changes that were deleted. A row that was emptied before no longer counts as a change.
    private(set) var deleted = 0
    private(set) var isLast = true
    /// The store's newest change, if known.
    private(set) var newest: Int64?

    /// A step that deletes no history.
    init(done: Int, isLast: Bool) { (self.done, self.isLast) = (done, isLast) }

    /// - Parameters:
    ///   - limit: Nothing after this is deleted.
    ///   - size: How many changes to look at.
    init(_ db: Database, limit: Int64, rule: DeliveryRule, size: Int) throws {
        let header = try HistoryHeader(db)
        newest = header.newest
        let goal = min(limit, header.newest)
        let position = try Self.position(db, rule)
        guard goal > position else { return }

        var end = position
        var going: [Int64] = []
        var covered = CoveredOrigins(rule)
        var count = 0
        let rows = try Row.fetchCursor(
            try db.cachedStatement(
                sql: """
                    SELECT id, origin, kind & 3 IS 3 AS void FROM historyd_change
                    WHERE id > ? AND id <= ? ORDER BY id LIMIT ?
                    """),
            arguments: [position, goal, size])
        while let row = try rows.next() {
            end = try row.integer("id", in: end...HistoryPosition.range.upperBound)
            count += 1
            let isVoid = try row.flag("void")
            guard covered.contain(row["origin"]) || isVoid else { continue }
            going.append(end)
            if !isVoid { deleted += 1 }
        }
        isLast = count < size
        for id in going {
            // The newest change is only emptied: its number must not be used again.
            let sql =
                id == header.newest
                ? "UPDATE historyd_change SET origin = 0, kind = 3, object = NULL, detail = NULL WHERE id = ?"
                : "DELETE FROM historyd_change WHERE id = ?"
            try db.cachedStatement(sql: sql).execute(arguments: [id])
        }
        done = going.count
        // An emptied change is deleted once it is no longer the newest.
        let cleaned = isLast ? min(goal, header.newest - 1) : end
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO historyd_store VALUES ('floor', ?), ('cleaned', ?), ('cleaned for', ?)"
        )
        .execute(arguments: [max(goal, header.floor), max(cleaned, position), rule.keeping])
    }

    /// Where the last cleaning stopped; the start, if its rule kept what this one does not.
    static func position(_ db: Database, _ rule: DeliveryRule) throws -> Int64 {
        let row = try Row.fetchOne(
            try db.cachedStatement(
                sql: """
                    SELECT (SELECT value FROM historyd_store WHERE key = 'cleaned') AS cleaned,
                        (SELECT value FROM historyd_store WHERE key = 'cleaned for') AS keeping
                    """))
        guard let row, row["keeping"] as DatabaseValue == rule.keeping.databaseValue else { return 0 }
        return try row.optionalInteger("cleaned", in: HistoryPosition.range) ?? 0
    }
}

/// Whether a rule lets history be cleaned, by the author of a change. It keeps the last answer, because
/// the changes of a transaction are adjacent and have the same author.
struct CoveredOrigins {
    private let rule: DeliveryRule
    private var last: (origin: DatabaseValue, isCovered: Bool)?

    init(_ rule: DeliveryRule) { self.rule = rule }

    mutating func contain(_ origin: DatabaseValue) -> Bool {
        if let last, last.origin == origin { return last.isCovered }
        let isCovered = rule.cleans(Origin(origin).author)
        last = (origin, isCovered)
        return isCovered
    }
}

/// The start of the history that is too young to be deleted.
package struct YoungHistory: Sendable, Equatable {
    /// Its first change.
    package let first: Int64
    package let time: HistoryTimestamp
}

extension YoungHistory {
    /// Finds the first change that a cleanup would delete but that is younger than a time.
    ///
    /// It reads only what the cleanup would delete. History is ordered by commits, not by time, so a
    /// changed clock makes no difference: everything after the first young change is kept with it.
    ///
    /// A time in the future is useless: its writer's clock was ahead. Such a change is as old as the next
    /// later one that has a valid time, and as old as the daemon's own record of it.
    ///
    /// - Parameter known: The position that the history had reached at that time, by the daemon's own
    ///   clock.
    init?(
        _ db: Database, through limit: Int64, youngerThan time: HistoryTimestamp, now: HistoryTimestamp,
        known: Int64, rule: DeliveryRule
    ) throws {
        var undated: Int64?
        var last: DatabaseValue?
        var covered = CoveredOrigins(rule)
        let rows = try Row.fetchCursor(
            db,
            sql:
                "SELECT id, origin FROM historyd_change WHERE id > ? AND id <= ? AND kind & 3 <> 3 ORDER BY id",
            arguments: [try CleaningStep.position(db, rule), limit])
        while let row = try rows.next() {
            let origin: DatabaseValue = row[1]
            if origin == last { continue }
            last = origin
            guard covered.contain(origin) else { continue }
            let at = Origin(origin).timestamp
            if at > now {
                let id: Int64 = row[0]
                if id > known { undated = undated ?? id }
            } else if at > time {
                self.init(first: undated ?? row[0], time: at)
                return
            } else {
                undated = nil
            }
        }
        guard let undated else { return nil }
        self.init(first: undated, time: now)
    }
}
