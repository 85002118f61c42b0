internal import FoundationEssentials
import GRDB
internal import Glibc

/// What the daemon knows about one store that is not in the store itself: one SQLite database
/// in the state folder, named after the store's id, so that a store that is moved keeps its place.
public final class StateDatabase: Sendable {
    public let path: String
    /// Whether there was none before.
    public let isNew: Bool
    let clock: HistoryClock
    private let queue: DatabaseQueue
    /// How long the store was served before this was opened, and when that was.
    private let servedBefore: Duration
    private let openedAt: Duration
    /// Cursors that are not saved yet; see `pass`.
    let unsaved = Locked<[String: Cursor]>([:])
    /// Whose cursors move together.
    let resting: RestingConsumers
    /// Where those were when their cursors were saved.
    private let restingSaved = Locked<Int64>(0)
    /// Rings where there begins to be something unsaved.
    let hasUnsaved = Bell()

    /// Where the state of a store is.
    public static func path(folder: String, store: StoreID) -> String { "\(folder)/\(store).sqlite" }

    /// Opens the state of a store, and makes it where there is none.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    public convenience init(folder: String, store: StoreID, clock: HistoryClock = .system) throws {
        let nobody = RestingConsumers([], at: Cursor(number: 0, movedAt: clock.wall()))
        try self.init(folder: folder, store: store, clock: clock, resting: nobody)
    }

    /// - Parameter resting: Consumers whose cursors are saved with the others.
    init(folder: String, store: StoreID, clock: HistoryClock, resting: RestingConsumers) throws {
        self.resting = resting
        path = Self.path(folder: folder, store: store)
        self.clock = clock
        openedAt = clock.elapsed()
        isNew = FileID(of: path) == nil
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -128")
            }
            queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.writeWithoutTransaction { db in
                try db.execute(
                    sql: """
                        PRAGMA journal_mode = WAL;
                        CREATE TABLE IF NOT EXISTS cursor (
                            consumer TEXT PRIMARY KEY, number INTEGER NOT NULL, moved_at INTEGER NOT NULL,
                            served INTEGER NOT NULL, mark TEXT) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS served (id INTEGER PRIMARY KEY CHECK (id = 1), milliseconds INTEGER NOT NULL);
                        CREATE TABLE IF NOT EXISTS expiry (
                            consumer TEXT PRIMARY KEY, reason TEXT NOT NULL, lost INTEGER, begins_after INTEGER NOT NULL) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS replica (
                            consumer TEXT, context TEXT, path TEXT, refill INTEGER NOT NULL, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS filled (
                            consumer TEXT, context TEXT, number INTEGER NOT NULL, mark TEXT, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS fetched (consumer TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS cleaning (
                            id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, passes INTEGER NOT NULL);
                        CREATE TABLE IF NOT EXISTS dead_letter (
                            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
                            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
                            call TEXT NOT NULL, kept_at INTEGER NOT NULL);
                        CREATE INDEX IF NOT EXISTS dead_letter_delivery ON dead_letter (delivery);
                        """ + Self.feedTables)
            }
            servedBefore = try queue.read { db in
                .milliseconds(
                    try Int64.fetchOne(
                        db,
                        sql:
                            "SELECT max(milliseconds) FROM (SELECT milliseconds FROM served UNION ALL SELECT served FROM cursor)"
                    ) ?? 0)
            }
        } catch let error as DatabaseError {
            throw Self.unusable(path, error)
        }
    }

    /// How long the store has been served in all, by a clock that nobody sets.
    public var served: Duration { servedBefore + max(.zero, clock.elapsed() - openedAt) }

    /// Keeps the served time for the next opening; each cursor that is saved does so, too.
    ///
    /// - Parameter newest: The store's newest change: whoever has had it does not stand still.
    public func saveServed(newest: Int64?) throws {
        try saveAll()
        try access { db in
            try db.execute(
                sql: """
                    INSERT INTO served VALUES (1, ?)
                    ON CONFLICT DO UPDATE SET milliseconds = max(milliseconds, excluded.milliseconds)
                    """,
                arguments: [served.milliseconds])
            if let newest {
                for table in ["cursor", "feed"] {
                    try db.execute(
                        sql: "UPDATE \(table) SET served = ? WHERE number >= ?",
                        arguments: [served.milliseconds, newest])
                }
            }
        }
    }

    /// A consumer had everything until now, and can not go on.
    public func saveStandstill(of consumer: String) throws {
        try access { db in
            try db.execute(
                sql: "UPDATE cursor SET served = ? WHERE consumer = ?",
                arguments: [served.milliseconds, consumer])
        }
    }

    private static func unusable(_ path: String, _ error: DatabaseError) -> HistoryError {
        let isDamaged = error.resultCode == .SQLITE_NOTADB || error.resultCode == .SQLITE_CORRUPT
        return HistoryError(
            .stateUnusable,
            "The state database \"\(path)\" can not be used: \(error.message ?? "SQLite result \(error.resultCode.rawValue)").",
            hint: isDamaged
                ? "Restore it from a backup, or move it away: its consumers then begin anew."
                : "Check the state folder's permissions and space.",
            cause: error)
    }

    func access<T>(_ body: (Database) throws -> T) throws -> T {
        do {
            return try queue.writeWithoutTransaction(body)
        } catch let error as DatabaseError {
            throw Self.unusable(path, error)
        }
    }

    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    public func cursor(of consumer: String) throws -> Cursor? { try cursors()[consumer] }

    /// All cursors, by consumer, those included that are not saved yet.
    public func cursors() throws -> [String: Cursor] {
        try access { db in
            try savedCursors(db).merging(unsaved.withLock { $0 }) { $1 }
                .merging(resting.cursors) { $1.number > $0.number ? $1 : $0 }
        }
    }

    /// All cursors, by consumer, as they are found after a crash: no history may be deleted that comes after them.
    func savedCursors() throws -> [String: Cursor] { try access { db in try savedCursors(db) } }

    private func savedCursors(_ db: Database) throws -> [String: Cursor] {
        let rows = try Row.fetchAll(
            try db.cachedStatement(sql: "SELECT consumer, number, moved_at, served, mark FROM cursor"))
        return Dictionary(
            uniqueKeysWithValues: rows.map { row in
                let moved = HistoryTimestamp(milliseconds: row["moved_at"])
                let served = Duration.milliseconds(row["served"] as Int64)
                return (
                    row["consumer"] as String,
                    Cursor(number: row["number"], movedAt: moved, movedAtServed: served, mark: row["mark"])
                )
            })
    }

    public func save(_ cursor: Cursor, of consumer: String) throws {
        try access { db in
            unsaved.withLock { $0[consumer] = nil }
            try save(cursor, of: consumer, db)
        }
    }

    /// Moves a cursor past what its consumer has nothing to do with. It is saved with others later: to
    /// find once more that there is nothing to do is cheaper than a write for each commit of somebody else.
    func pass(_ cursor: Cursor, of consumer: String) {
        let cursor = Cursor(
            number: cursor.number, movedAt: cursor.movedAt, movedAtServed: served, mark: cursor.mark)
        let isFirst = unsaved.withLock { unsaved in
            defer { unsaved[consumer] = cursor }
            return unsaved.isEmpty
        }
        if isFirst { hasUnsaved.ring() }
    }

    /// Saves what is not saved yet. To be done before history is deleted that somebody is only said to have passed.
    public func saveAll() throws {
        // They are taken when it is the database's turn: what is saved at once meanwhile comes after them.
        try access { db in
            var cursors = unsaved.withLock { unsaved in
                defer { unsaved = [:] }
                return unsaved
            }
            // Also of those who were woken and could not go on yet.
            if let place = resting.place(ifAfter: restingSaved.withLock { $0 }) {
                cursors.merge(resting.cursors) { $1 }
                restingSaved.withLock { $0 = place }
            }
            guard !cursors.isEmpty else { return }
            try db.inTransaction {
                for (consumer, cursor) in cursors { try save(cursor, of: consumer, db) }
                return .commit
            }
        }
    }

    /// Lets what was saved until now outlive a power failure: with `synchronous=NORMAL` that is a checkpoint's
    /// work (https://www.sqlite.org/pragma.html#pragma_synchronous).
    func bringToDisk() throws { try access { db in _ = try db.checkpoint(.passive) } }

    func save(_ cursor: Cursor, of consumer: String, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO cursor VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = excluded.number,
                moved_at = excluded.moved_at, served = excluded.served, mark = excluded.mark
                """
        ).execute(
            arguments: [
                consumer, cursor.number, cursor.movedAt.milliseconds, served.milliseconds, cursor.mark,
            ])
    }

    /// How far a consumer's last batch went, which it may not have come to the end of.
    public func fetched(of consumer: String) throws -> Int64 {
        try access { db in
            try Int64.fetchOne(db, sql: "SELECT number FROM fetched WHERE consumer = ?", arguments: [consumer])
                ?? 0
        }
    }

    public func saveFetched(_ number: Int64, of consumer: String) throws {
        try access { db in
            try db.cachedStatement(
                sql: "INSERT INTO fetched VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number"
            )
            .execute(arguments: [consumer, number])
        }
    }

    /// Forgets consumers that are configured no more, so that they hold back no cleanup.
    ///
    /// - Returns: Those that were forgotten.
    public func keepOnly(_ consumers: Set<String>) throws -> [String] {
        let gone = try cursors().keys.filter { !consumers.contains($0) }.sorted()
        for consumer in gone {
            try access { db in
                for table in ["cursor", "fetched", "expiry", "replica", "filled", "feed", "unmerged"] {
                    try db.execute(sql: "DELETE FROM \(table) WHERE consumer = ?", arguments: [consumer])
                }
            }
        }
        return gone
    }

    /// When history was last cleaned, and how many passes brought something since.
    public func cleaning() throws -> (at: HistoryTimestamp?, passes: Int) {
        try access { db in
            let row = try Row.fetchOne(db, sql: "SELECT at, passes FROM cleaning")
            return (row.map { HistoryTimestamp(milliseconds: $0["at"]) }, row?["passes"] ?? 0)
        }
    }

    public func saveCleaning(at: HistoryTimestamp, passes: Int) throws {
        try access { db in
            try db.execute(
                sql:
                    "INSERT INTO cleaning VALUES (1, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at, passes = excluded.passes",
                arguments: [at.milliseconds, passes])
        }
    }

    /// Counts a pass that brought something.
    public func countPass() throws {
        try access { db in
            try db.cachedStatement(
                sql: "INSERT INTO cleaning VALUES (1, ?, 1) ON CONFLICT DO UPDATE SET passes = passes + 1"
            )
            .execute(arguments: [clock.wall().milliseconds])
        }
    }

    public func close() throws { try queue.end() }
}

extension Duration {
    var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
