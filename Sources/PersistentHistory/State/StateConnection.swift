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
        if let problem = PlainFile.problem(at: path) {
            throw HistoryError(
                .stateUnusable, "The state database \"\(path)\" cannot be used: \(problem).",
                hint: "Move away what is there: its consumers then start over.")
        }
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            configuration.prepareDatabase { db in
                try ConnectionHardening.apply(db, .isLeftAlone)
                try db.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -128")
            }
            queue = try DatabaseQueue(
                path: PlainFile.uri(path, mayMake: true), configuration: configuration)
            servedBefore = try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA journal_mode = WAL")
                try StateSchema.migrate(db, path: path)
                let served = try Int64.fetchOne(
                    db,
                    sql:
                        "SELECT max(served) FROM (SELECT served FROM service UNION ALL SELECT served FROM cursor)"
                )
                return .milliseconds(
                    min(max(served ?? 0, Self.servedRange.lowerBound), Self.servedRange.upperBound))
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
        } catch let error as UnexpectedValue {
            throw Self.damaged(path, error.message, error)
        } catch let error as RowDecodingError {
            throw Self.damaged(path, "a value has a type that it cannot have", error)
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

    /// Milliseconds that a store may have been served: thousands of years, far from where sums overflow.
    static let servedRange: ClosedRange<Int64> = 0...(1 << 50)

    private static func damaged(_ path: String, _ what: String, _ error: any Error) -> HistoryError {
        HistoryError(
            .stateUnusable, "The state database \"\(path)\" is damaged: \(what).",
            hint: "Restore it from a backup, or move it away: its consumers then start over.", cause: error)
    }

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
