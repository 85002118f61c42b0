import GRDB

/// The beginning of the history that is too young to be deleted.
package struct YoungHistory: Sendable, Equatable {
    /// The first change of it.
    package let first: Int64
    package let time: HistoryTimestamp
}

extension YoungHistory {
    /// Finds the first change, of those that a cleanup would delete, that is younger than a time.
    ///
    /// It reads what the cleanup would delete and no more. The history is ordered by commits and not by time, so that a
    /// clock that was set makes no difference: everything behind the first young change is kept with it.
    init?(_ db: Database, through limit: Int64, youngerThan time: HistoryTimestamp, rule: DeliveryRule) throws {
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
            if at > time {
                self.init(first: row[0], time: at)
                return
            }
        }
        return nil
    }
}
