import PersistentHistory

/// A store under test with the connections of its writers: the tracked one, or its untracked twin.
final class Subject {
    let path: String
    let isTracked: Bool
    let observer: Connection
    private var writers: [Case.Writer: Connection] = [:]

    /// Makes the store with its schema.
    init(_ path: String, _ specimen: Case, isTracked: Bool) throws {
        self.path = path
        self.isTracked = isTracked
        observer = try Connection(path)
        let settings = specimen.settings
        if settings.isUTF16 { try observer.execute("PRAGMA encoding = 'UTF-16le'") }
        if settings.autoVacuum { try observer.execute("PRAGMA auto_vacuum = FULL") }
        if settings.isWAL { try observer.execute("PRAGMA journal_mode = WAL") }
        try observer.execute("PRAGMA synchronous = OFF")
        // A random case may ask for what SQLite refuses: the twin refuses it as well.
        for sql in specimen.schema { _ = observer.run(sql.text) }
        // A file with nothing in it is no database yet.
        try observer.execute("PRAGMA user_version = 1")
    }

    func connect(_ settings: Case.Settings) throws {
        for writer in Case.Writer.allCases {
            let connection = try Connection(writer == .attaching ? path + "-own" : path)
            if writer == .attaching {
                if settings.isUTF16 { try connection.execute("PRAGMA encoding = 'UTF-16le'") }
                try connection.execute(
                    "CREATE TABLE IF NOT EXISTS own (x); ATTACH '\(path)' AS store; PRAGMA store.synchronous = OFF"
                )
            }
            var pragmas = "PRAGMA synchronous = OFF;"
            if settings.recursiveTriggers { pragmas += "PRAGMA recursive_triggers = ON;" }
            if settings.foreignKeys { pragmas += "PRAGMA foreign_keys = ON;" }
            if !settings.trustsSchema { pragmas += "PRAGMA trusted_schema = OFF;" }
            try connection.execute(pragmas)
            if settings.hasLimits { connection.limit() }
            if isTracked, !(settings.loadsLate && writer == .plain) { try connection.installHistory() }
            writers[writer] = connection
        }
    }

    func writer(_ writer: Case.Writer) throws -> Connection {
        guard let connection = writers[writer] else { throw Connection.Failure(description: "Not connected.") }
        return connection
    }

    /// The triggers on a table that are not the application's.
    func ownTriggers(of table: String) throws -> [String] {
        let literal = table.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''")
        let rows = try observer.rows(
            """
            SELECT name FROM sqlite_schema WHERE type = 'trigger' AND substr(name, 1, 9) = 'historyd_'
            AND tbl_name = '\(literal)'
            """)
        return (rows ?? []).compactMap {
            if case .text(let name) = $0[0] { String(decoding: name, as: UTF8.self) } else { nil }
        }
    }

    func disconnect() { writers = [:] }

    /// The schema's text, as the application wrote it.
    func schema() throws -> [[Cell]] {
        try observer.rows(
            """
            SELECT type, name, tbl_name, sql FROM sqlite_schema
            WHERE name NOT LIKE 'historyd@_%' ESCAPE '@' AND tbl_name NOT LIKE 'historyd@_%' ESCAPE '@'
            """) ?? []
    }

    /// VACUUM gives rows new rowids in a table without an index. Tracking keeps them, as it has to;
    /// an index keeps them for the twin.
    func keepRowids() throws {
        let tables = try observer.rows(
            """
            SELECT name FROM pragma_table_list l WHERE schema = 'main' AND type = 'table' AND NOT wr
            AND substr(name, 1, 7) <> 'sqlite_' AND NOT EXISTS (SELECT 1 FROM pragma_index_list(l.name))
            AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(l.name) WHERE pk)
            """)
        for row in tables ?? [] {
            guard case .text(let text) = row[0] else { continue }
            let name = String(decoding: text, as: UTF8.self)
            try observer.execute(
                "CREATE INDEX \(SQL.quoted("twin " + name)) ON \(SQL.quoted(name)) ((0)) WHERE 0")
        }
    }
}
