internal import FoundationEssentials
import GRDB
internal import Glibc

/// How far a consumer got.
public struct Cursor: Sendable, Equatable {
    /// The number of the last transaction that the consumer is done with.
    public let number: Int64
    public let movedAt: HistoryTimestamp

    public init(number: Int64, movedAt: HistoryTimestamp) {
        self.number = number
        self.movedAt = movedAt
    }
}

/// A call of a hook that was given up.
public struct DeadLetter: Sendable, Equatable {
    public let consumer: String
    public let hook: String
    public let delivery: String
    public let reason: String
    public let attempts: Int
    /// The call's parameters as JSON.
    public let call: String
    public let keptAt: HistoryTimestamp

    public init(
        consumer: String, hook: String, delivery: String, reason: String, attempts: Int, call: String,
        keptAt: HistoryTimestamp
    ) {
        self.consumer = consumer
        self.hook = hook
        self.delivery = delivery
        self.reason = reason
        self.attempts = attempts
        self.call = call
        self.keptAt = keptAt
    }
}

/// What the daemon knows about one store that is not in the store itself: one SQLite database
/// in the state folder, named after the store's id, so that a store that is moved keeps its place.
public final class StateDatabase: Sendable {
    public let path: String
    private let queue: DatabaseQueue

    /// Opens the state of a store, and makes it where there is none.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    public init(folder: String, store: StoreID) throws {
        path = "\(folder)/\(store).sqlite"
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.prepareDatabase { db in
                try db.execute(sql: "PRAGMA synchronous = NORMAL")
            }
            queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.writeWithoutTransaction { db in
                try db.execute(
                    sql: """
                        PRAGMA journal_mode = WAL;
                        CREATE TABLE IF NOT EXISTS cursor (
                            consumer TEXT PRIMARY KEY, number INTEGER NOT NULL, moved_at INTEGER NOT NULL) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS fetched (consumer TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
                        CREATE TABLE IF NOT EXISTS cleaning (
                            id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, passes INTEGER NOT NULL);
                        CREATE TABLE IF NOT EXISTS dead_letter (
                            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
                            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
                            call TEXT NOT NULL, kept_at INTEGER NOT NULL);
                        """)
            }
        } catch let error as DatabaseError {
            throw Self.unusable(path, error)
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

    /// All cursors, by consumer.
    public func cursors() throws -> [String: Cursor] {
        try access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(sql: "SELECT consumer, number, moved_at FROM cursor"))
            return Dictionary(
                uniqueKeysWithValues: rows.map { row in
                    let moved = HistoryTimestamp(milliseconds: row["moved_at"])
                    return (row["consumer"] as String, Cursor(number: row["number"], movedAt: moved))
                })
        }
    }

    public func save(_ cursor: Cursor, of consumer: String) throws {
        try access { db in
            try db.cachedStatement(
                sql:
                    "INSERT INTO cursor VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = excluded.number, moved_at = excluded.moved_at"
            ).execute(arguments: [consumer, cursor.number, cursor.movedAt.milliseconds])
        }
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
                try db.execute(sql: "DELETE FROM cursor WHERE consumer = ?", arguments: [consumer])
                try db.execute(sql: "DELETE FROM fetched WHERE consumer = ?", arguments: [consumer])
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
            .execute(arguments: [HistoryTimestamp.now.milliseconds])
        }
    }

    public func keep(_ letter: DeadLetter) throws {
        try access { db in
            try db.execute(
                sql:
                    "INSERT INTO dead_letter (consumer, hook, delivery, reason, attempts, call, kept_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                arguments: [
                    letter.consumer, letter.hook, letter.delivery, letter.reason, letter.attempts, letter.call,
                    letter.keptAt.milliseconds,
                ])
        }
    }

    public func deadLetters() throws -> [DeadLetter] {
        try access { db in
            try Row.fetchAll(db, sql: "SELECT * FROM dead_letter ORDER BY id").map { row in
                DeadLetter(
                    consumer: row["consumer"], hook: row["hook"], delivery: row["delivery"],
                    reason: row["reason"],
                    attempts: row["attempts"], call: row["call"],
                    keptAt: HistoryTimestamp(milliseconds: row["kept_at"]))
            }
        }
    }

    public func close() throws { try queue.close() }
}
