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
    let restingSaved = Locked<Int64>(0)
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
                        CREATE INDEX IF NOT EXISTS dead_letter_consumer ON dead_letter (consumer);
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
            throw HistoryError.state(path, error)
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

    func access<T>(_ body: (Database) throws -> T) throws -> T {
        do {
            return try queue.writeWithoutTransaction(body)
        } catch let error as DatabaseError {
            throw HistoryError.state(path, error)
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
