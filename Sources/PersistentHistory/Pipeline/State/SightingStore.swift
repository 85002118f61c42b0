import GRDB

/// Positions of a store's history at past times, by the daemon's own clock. They show the age of changes
/// whose writer's clock was ahead. Some are kept as long as the store keeps history.
struct SightingStore: Sendable {
    let connection: StateConnection

    /// How many are kept.
    private static let count = 16

    /// Notes the present position of the history.
    ///
    /// - Parameter time: How long the store keeps history.
    /// - Returns: The position of the history that long ago; 0 if unknown.
    /// - Throws: `HistoryError` with `.stateUnusable`; what the source throws.
    func note(
        _ end: (number: Int64, fingerprint: String?), at now: HistoryTimestamp, keeping time: Duration,
        in source: some HistorySource
    ) throws -> Int64 {
        let old = now.milliseconds - time.milliseconds
        var found: Row?
        try connection.transaction { db in
            // The clock was set back, or was wrong when these were noted.
            try db.execute(sql: "DELETE FROM sighting WHERE at > ?", arguments: [now.milliseconds])
            found = try Row.fetchOne(
                db, sql: "SELECT * FROM sighting WHERE at <= ? ORDER BY position DESC LIMIT 1", arguments: [old]
            )
            let position = try found?.integer("position", in: HistoryPosition.range) ?? 0
            try db.execute(sql: "DELETE FROM sighting WHERE position < ?", arguments: [position])
            let last = try Int64.fetchOne(db, sql: "SELECT max(at) FROM sighting")
            if last.map({ $0 <= now.milliseconds - time.milliseconds / Int64(Self.count) }) ?? true {
                try db.execute(
                    sql: "INSERT OR IGNORE INTO sighting VALUES (?, ?, ?)",
                    arguments: [end.number, end.fingerprint, now.milliseconds])
            }
        }
        guard let found else { return 0 }
        let position = try found.integer("position", in: HistoryPosition.range)
        // The store was restored since then: that position now has another transaction.
        let fingerprint = try found.optionalText("fingerprint")
        let isReplaced = try source.isReplaced(fingerprint, at: position)
        guard position <= end.number, !isReplaced
        else {
            try connection.access { try $0.execute(sql: "DELETE FROM sighting") }
            return 0
        }
        return position
    }
}
