package import GRDB
import GRDBSQLite

/// What records the history of a store's file: historyd, Core Data, or nothing yet. Also whether the file
/// is a mirror, which is recorded at its source.
package enum StoreRecorder {
    /// historyd may record in a store that Core Data writes. Its history then takes precedence.
    static func source(of db: Database) throws -> Entity.Source? {
        if try hasRecordedHistory(db) { return .recorded }
        return try hasCoreDataHistory(db) ? .coreData : nil
    }

    /// Whether historyd records in a database. (GRDB's `tableExists` reads and keeps the whole schema.)
    package static func hasRecordedHistory(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'historyd_store'") ?? false
    }

    /// Whether a database has Core Data's history.
    static func hasCoreDataHistory(_ db: Database) throws -> Bool {
        try ["ATRANSACTION", "ACHANGE"].allSatisfy { try isTable(db, $0) }
    }

    /// Whether Core Data writes a database, with or without a history, even if tables are missing.
    static func isCoreData(_ db: Database) throws -> Bool {
        try ["Z_METADATA", "Z_PRIMARYKEY", "Z_MODELCACHE", "ATRANSACTION", "ACHANGE"].contains {
            try isTable(db, $0)
        }
    }

    /// Whether a name is that of a table. Reading a view or a virtual table could do anything.
    static func isTable(_ db: Database, _ name: String) throws -> Bool {
        try Row.fetchOne(
            db,
            sql: """
                SELECT 1 FROM sqlite_master
                WHERE type = 'table' AND name = ? AND rootpage > 0 AND sql NOT LIKE 'CREATE VIRTUAL%'
                """, arguments: [name]) != nil
    }

    /// Whether a store is a mirror.
    package static func isMirror(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'historyd_mirror'")
            ?? false
    }

    // MARK: From a file

    /// Refuses to change a store whose history Core Data records, before opening anything that may leave
    /// a file beside it.
    ///
    /// - Throws: `HistoryError` with `.onlyRead`.
    static func requireRecordable(_ path: String) throws {
        // Other problems show when the store is opened.
        guard let connection = try? UntouchedConnection(path: path, timeout: .zero) else { return }
        let source = try? connection.read { db in try Self.source(of: db) }
        try connection.close()
        if source?.isOnlyRead == true { throw HistoryError.onlyRead(path) }
    }

    /// What writes a store that cannot be read now, according to its file alone; nil if that does not
    /// show.
    static func writer(ofFile path: String) -> Entity.Source? {
        try? UntouchedConnection.peek(path) { db in
            try hasRecordedHistory(db) ? .recorded : isCoreData(db) ? .coreData : nil
        }
    }
}

extension HistoryError {
    static func hasNoTables(_ path: String) -> HistoryError {
        HistoryError(
            .notTracked, "The store \"\(path)\" has no tables yet.",
            hint: "Try again when its application has made them.")
    }

    static func notTracked(_ path: String) -> HistoryError {
        HistoryError(
            .notTracked, "The store \"\(path)\" is not tracked.",
            hint: "Track it with `historyctl track STORE ENTITY…`.")
    }

    package static func notTracked(_ db: Database) -> HistoryError {
        notTracked(sqlite3_db_filename(db.sqliteConnection, "main").map { String(cString: $0) } ?? "")
    }
}

extension HistoryError {
    /// The error for a change to a mirror's recording.
    static let isMirror = HistoryError(
        .isMirror, "The store is a mirror: it is recorded at its source.",
        hint: "Track the source. A daemon serves a mirror with \"mirror\": true.")
}
