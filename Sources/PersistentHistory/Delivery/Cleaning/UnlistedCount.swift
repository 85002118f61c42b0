import GRDB

/// Counts the history that is kept forever, because its authors are neither delivered nor cleaned.
///
/// It keeps the last count, so that it reads only what is new.
final class UnlistedCount: Sendable {
    private let counted = Locked<(position: Int64, changes: Int)>((0, 0))

    /// Continues the last count.
    func count(in path: String, _ rule: DeliveryRule) throws -> Int {
        // Uses a separate connection, so that neither waits for the other.
        try HistoryReader.reading(path) { db in
            try counted.withLock { counted in
                try Self.count(&counted, rule, db)
                return counted.changes
            }
        }
    }

    private static func count(
        _ counted: inout (position: Int64, changes: Int), _ rule: DeliveryRule, _ db: Database
    ) throws {
        var last: (origin: DatabaseValue, isUnlisted: Bool)?
        var authorship = Authorship.undeclared
        let rows = try Row.fetchCursor(
            db, sql: "SELECT id, origin FROM historyd_change WHERE id > ? AND kind & 3 <> 3 ORDER BY id",
            arguments: [counted.position])
        while let row = try rows.next() {
            let origin: DatabaseValue = row[1]
            if last?.origin != origin {
                authorship = Origin(origin, like: authorship).authorship
                last = (origin, rule.isUnlisted(authorship.author))
            }
            counted.position = row[0]
            if last?.isUnlisted == true { counted.changes += 1 }
        }
    }
}
