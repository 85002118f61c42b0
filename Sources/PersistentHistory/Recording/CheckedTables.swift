import GRDB
import GRDBSQLite

/// Lets a connection check the history's tables once for each version of the store's schema.
///
/// With the first statement that needs the schema after it has changed, SQLite parses all of it: a quarter of a second
/// where a thousand tables are recorded. On the loop, a read is refused instead (`storeBusy`), until one elsewhere has
/// had it parsed.
final class CheckedTables: Sendable {
    private struct State {
        var version: Int64?
        /// On whose thread nothing is parsed.
        var loop: HistoryLoop?
        /// How many threads are about to have a new schema parsed, or wait for it.
        var parsing = 0
    }

    /// The schema is not the one that was checked.
    struct SchemaChange: Error {}

    private let state = Locked(State())

    /// From now on, nothing is parsed on the loop's thread.
    func spare(_ loop: HistoryLoop) { state.withLock { $0.loop = loop } }

    /// Runs a read that begins with `check` or `inTransaction`.
    ///
    /// - Throws: `HistoryError` with `.storeBusy`, caused by a `SchemaChange`; what the body throws.
    func reading<T>(_ path: String, _ body: () throws -> T) throws -> T {
        let (loop, isParsing) = state.withLock { ($0.loop, $0.parsing > 0) }
        let isOnLoop = loop?.isCurrent ?? false
        do {
            if isOnLoop, isParsing { throw SchemaChange() }
            return try body()
        } catch let change as SchemaChange {
            if isOnLoop {
                throw HistoryError(
                    .storeBusy, "The schema of the store \"\(path)\" has changed, and is being read.",
                    hint: "Try again.", cause: change)
            }
            state.withLock { $0.parsing += 1 }
            defer { state.withLock { $0.parsing -= 1 } }
            return try body()
        }
    }

    /// Runs a body that reads the tables, in one transaction.
    ///
    /// - Parameter body: Is given the version of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
    /// - Throws: As `check`; what the body throws.
    func inTransaction<T>(_ db: Database, _ body: (Database, _ schemaVersion: Int64) throws -> T) throws -> T {
        // The usual case. A transaction that SQLite began by itself lasts until the last of its statements is
        // finished (https://www.sqlite.org/lang_transaction.html): this one, which has no other use.
        let result = try db.rows("PRAGMA main.schema_version") { row -> T? in
            guard try row.step(db) else { return nil }
            let version = sqlite3_column_int64(row, 0)
            return isChecked(version) ? try body(db, version) : nil
        }
        return try result ?? db.inReadTransaction { try body(db, check(db)) }
    }

    /// Whether a thread is about to have a new schema parsed, or waits for it.
    var isBeingParsed: Bool { state.withLock { $0.parsing > 0 } }

    private func isChecked(_ version: Int64) -> Bool { state.withLock { $0.version == version } }

    /// To be called in the transaction that uses the tables.
    ///
    /// - Returns: The version of the schema.
    /// - Throws: `SchemaChange` where `reading` is to handle it; `UnexpectedValue`, `DatabaseError`.
    @discardableResult
    func check(_ db: Database) throws -> Int64 {
        // This parses nothing.
        let version = try db.firstRow("PRAGMA schema_version") { sqlite3_column_int64($0, 0) }
        if isChecked(version) { return version }
        guard state.withLock({ $0.loop == nil || $0.parsing > 0 }) else { throw SchemaChange() }
        try RecordingTables.check(db)
        state.withLock { $0.version = version }
        return version
    }
}
