import GRDB

/// The checkpoints of a store's feeds, and what is withheld from them.
struct FeedStore: Sendable {
    let connection: StateConnection
    let store: StoreID

    private var now: Int64 { connection.clock.wall().milliseconds }
    private var served: Int64 { connection.served.milliseconds }

    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    func all() throws -> [FeedID: FeedState] {
        try connection.access { db in
            let rows = try Row.fetchAll(try db.cachedStatement(sql: "SELECT * FROM feed"))
            return Dictionary(
                uniqueKeysWithValues: try rows.map { row in
                    (
                        FeedID(consumer: try row.text("consumer"), context: try row.text("context")),
                        try state(row)
                    )
                })
        }
    }

    func state(of feed: FeedID) throws -> FeedState? {
        try connection.access { db in
            try Row.fetchOne(
                try db.cachedStatement(sql: "SELECT * FROM feed WHERE consumer = ? AND context = ?"),
                arguments: [feed.consumer, feed.context]
            ).map(state)
        }
    }

    private func state(_ row: Row) throws -> FeedState {
        let checkpoint = try Checkpoint(row)
        return FeedState(
            checkpoint: checkpoint, expiry: try Expiry(row, after: checkpoint.position, store))
    }

    /// Creates a new feed.
    func begin(_ feed: FeedID, at position: Int64, _ reason: Expiry.Reason?) throws {
        try connection.access { db in
            try db.execute(
                sql: "INSERT INTO feed VALUES (?, ?, ?, ?, ?, ?, NULL)",
                arguments: [feed.consumer, feed.context, position, now, served, reason?.rawValue])
        }
    }

    /// Records that a feed's program has processed everything up to a position.
    func acknowledge(_ feed: FeedID, through position: Int64) throws {
        try connection.transaction { db in
            // While a loss has not been acknowledged, the position is where the feed starts over.
            try db.cachedStatement(
                sql: """
                    UPDATE feed SET position = ?1, moved_at = ?2, served = ?3, expiry = NULL, lost = NULL
                    WHERE consumer = ?4 AND context = ?5
                    AND (position < ?1 OR position = ?1 AND expiry IS NOT NULL)
                    """
            ).execute(arguments: [position, now, served, feed.consumer, feed.context])
            try db.cachedStatement(
                sql: """
                    DELETE FROM unmerged WHERE consumer = ?1
                    AND last <= (SELECT min(position) FROM feed WHERE consumer = ?1)
                    """
            ).execute(arguments: [feed.consumer])
        }
    }

    /// Moves a feed over what is not for it, unless it has moved meanwhile. The time of its last move
    /// stays, so its lease continues to run.
    func skip(_ feed: FeedID, from old: Int64, to position: Int64) throws {
        try connection.access { db in
            try db.cachedStatement(
                sql: """
                    UPDATE feed SET position = ?
                    WHERE consumer = ? AND context = ? AND position = ? AND expiry IS NULL
                    """
            ).execute(arguments: [position, feed.consumer, feed.context, old])
        }
    }

    /// Moves a feed to another position, and stores its loss of history until that is acknowledged.
    func expire(_ feed: FeedID, _ reason: Expiry.Reason, at position: Int64) throws {
        try connection.access { db in
            try expire(
                db, reason, at: position, where: "consumer = ? AND context = ?", [feed.consumer, feed.context])
        }
    }

    /// See `StateDatabase.startOver`.
    func expireAll(of consumer: String, _ expiry: Expiry, _ db: Database) throws {
        try expire(db, expiry.reason, at: expiry.after.number, where: "consumer = ?", [consumer])
        try db.execute(sql: "DELETE FROM unmerged WHERE consumer = ?", arguments: [consumer])
    }

    private func expire(
        _ db: Database, _ reason: Expiry.Reason, at position: Int64, where condition: String,
        _ arguments: StatementArguments
    ) throws {
        try db.execute(
            sql: """
                UPDATE feed SET lost = CASE WHEN expiry IS NULL THEN position ELSE lost END,
                expiry = ?, position = ?, moved_at = ?, served = ? WHERE \(condition)
                """,
            arguments: [reason.rawValue, position, now, served] + arguments)
    }

    /// Removes the feeds of a consumer that are no longer configured.
    ///
    /// - Returns: The removed feeds.
    func keepOnly(_ contexts: [String], of consumer: String) throws -> [String] {
        try connection.access { db in
            let known = try String.fetchAll(
                db, sql: "SELECT context FROM feed WHERE consumer = ?", arguments: [consumer])
            let kept = Set<BinaryText>(names: contexts)
            let gone = known.filter { !kept.contains($0) }
            for context in gone {
                try db.execute(
                    sql: "DELETE FROM feed WHERE consumer = ? AND context = ?", arguments: [consumer, context])
            }
            return gone
        }
    }

    // MARK: What merge hooks have withheld

    /// Stores what a consumer's merge hooks have withheld from its contexts, until all its feeds have
    /// passed it.
    func saveUnmerged(_ ranges: [ClosedRange<Int64>], of consumer: String) throws {
        try connection.transaction { db in
            for range in ranges {
                try db.cachedStatement(sql: "INSERT OR REPLACE INTO unmerged VALUES (?, ?, ?)")
                    .execute(arguments: [consumer, range.lowerBound, range.upperBound])
            }
        }
    }

    func unmerged(of consumer: String, after position: Int64, through last: Int64) throws -> [ClosedRange<
        Int64
    >] {
        try connection.access { db in
            try Row.fetchAll(
                try db.cachedStatement(
                    sql: "SELECT first, last FROM unmerged WHERE consumer = ? AND last > ? AND first <= ?"),
                arguments: [consumer, position, last]
            )
            .map { row in
                let first = try row.integer("first", in: HistoryPosition.range)
                return try first...row.integer("last", in: first...HistoryPosition.range.upperBound)
            }
        }
    }

    /// Removes what was stored for a batch that the consumer has not finished, because the batch is
    /// repeated.
    func forgetUnmerged(of consumer: String, after position: Int64) throws {
        try connection.access { db in
            try db.execute(
                sql: "DELETE FROM unmerged WHERE consumer = ? AND last > ?", arguments: [consumer, position])
        }
    }
}
