/// Stores in which SQLite contradicts itself, with the same statements, tracked or not: they are not held against
/// recording.
extension Subject {
    /// Whether its indexes hold what its tables hold, its strict columns what they may hold, and its generated columns
    /// what their expressions give.
    var isSound: Bool {
        get throws {
            guard try observer.rows("PRAGMA integrity_check") == [[.text(Array("ok".utf8))]] else {
                return false
            }
            return try observer.rows(
                """
                SELECT name, sql FROM sqlite_schema s WHERE type = 'table' AND EXISTS
                (SELECT 1 FROM pragma_table_xinfo(s.name) WHERE hidden IN (2, 3))
                """
            )?.allSatisfy { row in
                guard case .text(let name) = row[0], case .text(let sql) = row[1] else { return true }
                return try isComputed(
                    String(decoding: name, as: UTF8.self), definition: String(decoding: sql, as: UTF8.self))
            } ?? true
        }
    }

    /// Whether the rows of a table are the same when they are written again.
    private func isComputed(_ name: String, definition: String) throws -> Bool {
        let columns = try observer.rows(
            "SELECT group_concat('\"' || replace(name, '\"', '\"\"') || '\"') FROM pragma_table_xinfo('\(name.replacing("'", with: "''"))') WHERE hidden = 0"
        )
        guard case .text(let list)? = columns?.first?.first else { return true }
        let (table, ordinary) = (SQL.quoted(name), String(decoding: list, as: UTF8.self))
        try observer.execute("ATTACH ':memory:' AS rewritten; PRAGMA ignore_check_constraints = ON")
        defer { _ = observer.run("DETACH rewritten") }
        // SQLite keeps a definition's text from its name on.
        try observer.execute("CREATE TABLE rewritten.\(definition.dropFirst("CREATE TABLE ".count))")
        _ = observer.run("INSERT INTO rewritten.\(table) (\(ordinary)) SELECT \(ordinary) FROM main.\(table)")
        return try observer.rows("SELECT * FROM main.\(table) EXCEPT SELECT * FROM rewritten.\(table)")?.isEmpty
            ?? true
    }
}
