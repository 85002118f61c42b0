import GRDB

/// The tables of a state database. `PRAGMA user_version` is the version of the tables.
enum StateSchema {
    static let version = 1

    /// - `cursor`: a consumer's checkpoint; where the batch ended that it has begun (`batch_end`); the history that
    ///   it has lost, until its hooks have been notified (`expiry`, `lost`, `begins_after`).
    /// - `feed`: a feed's checkpoint, and the history that it has lost, until that was acknowledged.
    /// - `unmerged`: what a consumer's merge hooks have kept from its feeds.
    /// - `replica`: where a replica is, the checkpoint at which it was filled last, whether it is to be filled again.
    /// - `service`: served time, when history was last cleaned, and the notifications since that brought
    ///   something (`passes`).
    private static let tables = """
        CREATE TABLE cursor (
            consumer TEXT PRIMARY KEY, position INTEGER NOT NULL, fingerprint TEXT, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, batch_end INTEGER NOT NULL DEFAULT 0, expiry TEXT, lost INTEGER,
            begins_after INTEGER) WITHOUT ROWID;
        CREATE TABLE feed (
            consumer TEXT, context TEXT, position INTEGER NOT NULL, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, expiry TEXT, lost INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS unmerged (
            consumer TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (consumer, first)) WITHOUT ROWID;
        CREATE TABLE replica (
            consumer TEXT, context TEXT, path TEXT NOT NULL, refill INTEGER NOT NULL, position INTEGER,
            fingerprint TEXT, moved_at INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS dead_letter (
            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
            call TEXT NOT NULL, kept_at INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS dead_letter_delivery ON dead_letter (delivery);
        CREATE INDEX IF NOT EXISTS dead_letter_consumer ON dead_letter (consumer);
        CREATE TABLE service (
            id INTEGER PRIMARY KEY CHECK (id = 1), served INTEGER NOT NULL, cleaned_at INTEGER,
            passes INTEGER NOT NULL);
        INSERT INTO service VALUES (1, 0, NULL, 0);
        """

    /// The tables that were otherwise before there were versions.
    private static let unversioned: KeyValuePairs = [
        "cursor": "consumer, number, moved_at, served, mark",
        "fetched": "consumer, number",
        "expiry": "consumer, reason, lost, begins_after",
        "replica": "consumer, context, path, refill",
        "filled": "consumer, context, number, mark",
        "feed": "consumer, context, number, moved_at, served, reason, lost",
        "served": "id, milliseconds",
        "cleaning": "id, at, passes",
    ]

    private static let copyUnversioned = """
        INSERT INTO cursor SELECT c.consumer, c.number, c.mark, c.moved_at, c.served, coalesce(f.number, 0),
            e.reason, e.lost, e.begins_after
            FROM v0_cursor c LEFT JOIN v0_fetched f USING (consumer) LEFT JOIN v0_expiry e USING (consumer);
        INSERT INTO feed SELECT consumer, context, number, moved_at, served, reason, lost FROM v0_feed;
        INSERT INTO replica SELECT r.consumer, r.context, r.path, r.refill, f.number, f.mark, NULL
            FROM v0_replica r LEFT JOIN v0_filled f USING (consumer, context);
        UPDATE service SET served = coalesce((SELECT milliseconds FROM v0_served), 0),
            cleaned_at = (SELECT at FROM v0_cleaning), passes = coalesce((SELECT passes FROM v0_cleaning), 0);
        """

    /// Brings a file up to the present version, in one transaction.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable` if a newer program wrote it; `DatabaseError`.
    static func migrate(_ db: Database, path: String) throws {
        if try version(of: db) == version { return }
        try db.inTransaction(.immediate) {
            switch try version(of: db) {
            case version: break
            case 0:
                if try db.tableExists("cursor") {
                    try takeOverUnversioned(db)
                } else {
                    try db.execute(sql: tables)
                }
            case let newer:
                throw HistoryError(
                    .stateUnusable,
                    "The state database \"\(path)\" has the schema version \(newer), which a newer program wrote; this program knows versions up to \(version).",
                    hint: "Use the newer program, or move the file away; the store's consumers then start over."
                )
            }
            try db.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    private static func version(of db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    }

    private static func takeOverUnversioned(_ db: Database) throws {
        for (table, columns) in unversioned {
            // An early state lacks those that came later.
            try db.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS \(table) (\(columns));
                    ALTER TABLE \(table) RENAME TO v0_\(table);
                    """)
        }
        try db.execute(sql: tables + copyUnversioned)
        for (table, _) in unversioned { try db.execute(sql: "DROP TABLE v0_\(table)") }
    }
}
