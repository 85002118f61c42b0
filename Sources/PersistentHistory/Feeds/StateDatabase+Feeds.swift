import GRDB

/// How far the feeds are.
extension StateDatabase {
    static let feedTables = """
        CREATE TABLE IF NOT EXISTS feed (
            consumer TEXT, context TEXT, number INTEGER NOT NULL, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, reason TEXT, lost INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS unmerged (
            consumer TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (consumer, first)) WITHOUT ROWID;
        """

    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    func feeds(store: StoreID) throws -> [FeedID: FeedPlace] {
        try access { db in
            let rows = try Row.fetchAll(try db.cachedStatement(sql: "SELECT * FROM feed"))
            return Dictionary(uniqueKeysWithValues: rows.map { Self.feed($0, store) })
        }
    }

    func feed(_ feed: FeedID, store: StoreID) throws -> FeedPlace? {
        try access { db in
            try Row.fetchOne(
                try db.cachedStatement(sql: "SELECT * FROM feed WHERE consumer = ? AND context = ?"),
                arguments: [feed.consumer, feed.context]
            )
            .map { Self.feed($0, store).1 }
        }
    }

    private static func feed(_ row: Row, _ store: StoreID) -> (FeedID, FeedPlace) {
        let cursor = Cursor(
            number: row["number"], movedAt: HistoryTimestamp(milliseconds: row["moved_at"]),
            movedAtServed: .milliseconds(row["served"] as Int64))
        let expiry = (row["reason"] as String?).map { reason in
            Expiry(
                reason: Expiry.Reason(rawValue: reason) ?? .expired,
                lost: (row["lost"] as Int64?).map { HistoryToken(store: store, number: $0) },
                after: HistoryToken(store: store, number: cursor.number))
        }
        return (
            FeedID(consumer: row["consumer"], context: row["context"]),
            FeedPlace(cursor: cursor, expiry: expiry)
        )
    }

    /// Gives a feed that is new its place.
    func beginFeed(_ feed: FeedID, at number: Int64, _ reason: Expiry.Reason?) throws {
        try access { db in
            try db.execute(
                sql: "INSERT INTO feed VALUES (?, ?, ?, ?, ?, ?, NULL)",
                arguments: [
                    feed.consumer, feed.context, number, clock.wall().milliseconds, served.milliseconds,
                    reason?.rawValue,
                ])
        }
    }

    /// Notes that a feed's program is done with everything up to a place.
    func acknowledge(_ feed: FeedID, through number: Int64) throws {
        try access { db in
            try db.inTransaction {
                // While something lost has not been acknowledged, the place is where it begins anew.
                try db.cachedStatement(
                    sql: """
                        UPDATE feed SET number = ?1, moved_at = ?2, served = ?3, reason = NULL, lost = NULL
                        WHERE consumer = ?4 AND context = ?5 AND (number < ?1 OR number = ?1 AND reason IS NOT NULL)
                        """
                ).execute(
                    arguments: [
                        number, clock.wall().milliseconds, served.milliseconds, feed.consumer, feed.context,
                    ])
                try db.cachedStatement(
                    sql: """
                        DELETE FROM unmerged WHERE consumer = ?1
                        AND last <= (SELECT min(number) FROM feed WHERE consumer = ?1)
                        """
                ).execute(arguments: [feed.consumer])
                return .commit
            }
        }
    }

    /// Moves a feed over what is not for it, unless it has moved meanwhile. That it has left something
    /// undone for long stays so.
    func moveFeed(_ feed: FeedID, from old: Int64, to number: Int64) throws {
        try access { db in
            try db.cachedStatement(
                sql: """
                    UPDATE feed SET number = ? WHERE consumer = ? AND context = ? AND number = ? AND reason IS NULL
                    """
            ).execute(arguments: [number, feed.consumer, feed.context, old])
        }
    }

    /// Lets a feed go on at another place, and keeps until it was acknowledged that it has lost history.
    func expireFeed(_ feed: FeedID, _ reason: Expiry.Reason, at number: Int64) throws {
        try access { db in
            try expireFeeds(
                db, reason, at: number, where: "consumer = ? AND context = ?",
                [feed.consumer, feed.context])
        }
    }

    func expireFeeds(
        _ db: Database, _ reason: Expiry.Reason, at number: Int64, where condition: String,
        _ arguments: StatementArguments
    ) throws {
        try db.execute(
            sql: """
                UPDATE feed SET lost = CASE WHEN reason IS NULL THEN number ELSE lost END,
                reason = ?, number = ?, moved_at = ?, served = ? WHERE \(condition)
                """,
            arguments: [reason.rawValue, number, clock.wall().milliseconds, served.milliseconds] + arguments)
    }

    /// Forgets the feeds of a consumer that are configured no more.
    ///
    /// - Returns: Those that were forgotten.
    func keepOnly(feeds: [String], of consumer: String) throws -> [String] {
        try access { db in
            let known = try String.fetchAll(
                db, sql: "SELECT context FROM feed WHERE consumer = ?", arguments: [consumer])
            let gone = known.filter { !feeds.contains($0) }
            for context in gone {
                try db.execute(
                    sql: "DELETE FROM feed WHERE consumer = ? AND context = ?", arguments: [consumer, context])
            }
            return gone
        }
    }

    // MARK: What the default merge leaves out

    /// Keeps what a consumer's merge hooks have kept from its contexts, until all its feeds have passed it.
    func saveUnmerged(_ ranges: [ClosedRange<Int64>], of consumer: String) throws {
        try access { db in
            try db.inTransaction {
                for range in ranges {
                    try db.cachedStatement(sql: "INSERT OR REPLACE INTO unmerged VALUES (?, ?, ?)")
                        .execute(arguments: [consumer, range.lowerBound, range.upperBound])
                }
                return .commit
            }
        }
    }

    func unmerged(of consumer: String, after number: Int64, through last: Int64) throws -> [ClosedRange<Int64>]
    {
        try access { db in
            try Row.fetchAll(
                try db.cachedStatement(
                    sql: "SELECT first, last FROM unmerged WHERE consumer = ? AND last > ? AND first <= ?"),
                arguments: [consumer, number, last]
            )
            .map { row in (row["first"] as Int64)...(row["last"] as Int64) }
        }
    }

    /// Forgets what was kept of a batch that the consumer has not come to the end of: it comes again.
    func forgetUnmerged(of consumer: String, after cursor: Int64) throws {
        try access { db in
            try db.execute(
                sql: "DELETE FROM unmerged WHERE consumer = ? AND last > ?", arguments: [consumer, cursor])
        }
    }
}
