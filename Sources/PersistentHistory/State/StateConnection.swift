internal import FoundationEssentials
import GRDB

/// The connection to a state database, which its stores share, and the served time.
final class StateConnection: Sendable {
    let path: String
    /// Whether the file was created now.
    let isNew: Bool
    let clock: HistoryClock
    private let queue: DatabaseQueue
    /// How long the store was served before this was opened, and when that was.
    private let servedBefore: Duration
    private let openedAt: Duration

    /// Opens a state database, creates it where there is none, and migrates it to the present schema.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    init(_ path: String, clock: HistoryClock) throws {
        self.path = path
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
            servedBefore = try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA journal_mode = WAL")
                try StateSchema.migrate(db, path: path)
                let served = try Int64.fetchOne(
                    db,
                    sql:
                        "SELECT max(served) FROM (SELECT served FROM service UNION ALL SELECT served FROM cursor)"
                )
                return .milliseconds(served ?? 0)
            }
        } catch let error as DatabaseError {
            throw Self.unusable(path, error)
        }
    }

    /// How long the store has been served in all, by a clock that nobody sets.
    var served: Duration { servedBefore + max(.zero, clock.elapsed() - openedAt) }

    /// Runs a body outside a transaction.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`, and what else the body throws.
    func access<T>(_ body: (Database) throws -> T) throws -> T {
        do {
            return try queue.writeWithoutTransaction(body)
        } catch let error as DatabaseError {
            throw Self.unusable(path, error)
        }
    }

    /// Runs a body in a transaction.
    func transaction(_ body: (Database) throws -> Void) throws {
        try access { db in
            try db.inTransaction {
                try body(db)
                return .commit
            }
        }
    }

    func close() throws { try queue.end() }

    private static func unusable(_ path: String, _ error: DatabaseError) -> HistoryError {
        let isDamaged = error.resultCode == .SQLITE_NOTADB || error.resultCode == .SQLITE_CORRUPT
        return HistoryError(
            .stateUnusable,
            "The state database \"\(path)\" cannot be used: \(error.message ?? "SQLite result \(error.resultCode.rawValue)").",
            hint: isDamaged
                ? "Restore it from a backup, or move it away: its consumers then start over."
                : "Check the state folder's permissions and space.",
            cause: error)
    }
}

extension Duration {
    var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
