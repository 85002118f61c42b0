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
        CREATE TABLE unmerged (
            consumer TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (consumer, first)) WITHOUT ROWID;
        CREATE TABLE replica (
            consumer TEXT, context TEXT, path TEXT NOT NULL, refill INTEGER NOT NULL, position INTEGER,
            fingerprint TEXT, moved_at INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE dead_letter (
            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
            call TEXT NOT NULL, kept_at INTEGER NOT NULL);
        CREATE INDEX dead_letter_delivery ON dead_letter (delivery);
        CREATE INDEX dead_letter_consumer ON dead_letter (consumer);
        CREATE TABLE service (
            id INTEGER PRIMARY KEY CHECK (id = 1), served INTEGER NOT NULL, cleaned_at INTEGER,
            passes INTEGER NOT NULL);
        INSERT INTO service VALUES (1, 0, NULL, 0);
        """

    /// Creates the tables in a new file, in one transaction.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable` if a newer program wrote it; `DatabaseError`.
    static func prepare(_ db: Database, path: String) throws {
        if try version(of: db) == version { return }
        try db.inTransaction(.immediate) {
            switch try version(of: db) {
            case version: break
            case 0: try db.execute(sql: tables)
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
}
