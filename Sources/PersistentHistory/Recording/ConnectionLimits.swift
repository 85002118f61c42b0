import GRDB
import GRDBSQLite

/// What a connection must allow to read a tracked store and to write its tables
/// (https://www.sqlite.org/c3ref/c_limit_attached.html).
///
/// SQLite compiles our triggers into an application's statements, and checks them against the
/// application's limits. So the lowest sufficient limits are found by trying.
package struct ConnectionLimits: Sendable, Equatable {
    /// SQLITE_LIMIT_EXPR_DEPTH.
    package let expressionDepth: Int32
    /// SQLITE_LIMIT_COMPOUND_SELECT.
    package let compoundTerms: Int32
    /// Whether tombstones are lists, which take two characters for each byte of a preserved value (`ValueList`).
    package let doublesPreserved: Bool

    /// What SQLite recommends for statements from untrusted sources (https://www.sqlite.org/security.html).
    package static let recommended = ConnectionLimits(expressionDepth: 10, compoundTerms: 3)

    private init(expressionDepth: Int32, compoundTerms: Int32) {
        (self.expressionDepth, self.compoundTerms, doublesPreserved) = (expressionDepth, compoundTerms, false)
    }

    /// The limits that writers of the tracked tables need; at least what SQLite recommends.
    ///
    /// - Throws: `HistoryError`.
    package init(neededBy path: String) throws {
        let (statements, doublesPreserved) = try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db in
                let schema = try StoreSchema(db)
                let tracked = try EntityCatalog(db).tracked
                let writes = try tracked.keys.sorted().flatMap { try TableSchema($0.text, in: schema).writes }
                return (writes, tracked.values.contains { $0.preserved.count > 1 })
            }
        }
        self.doublesPreserved = doublesPreserved
        func least(_ limit: Int32, from recommended: Int32) throws -> Int32 {
            var (least, most) = (recommended, recommended)
            while try !Self.allows(statements, limit, most, path), most < 1 << 20 {
                (least, most) = (most + 1, most * 2)
            }
            while least < most {
                let middle = least + (most - least) / 2
                if try Self.allows(statements, limit, middle, path) {
                    most = middle
                } else {
                    least = middle + 1
                }
            }
            return most
        }
        expressionDepth = try least(SQLITE_LIMIT_EXPR_DEPTH, from: Self.recommended.expressionDepth)
        compoundTerms = try least(SQLITE_LIMIT_COMPOUND_SELECT, from: Self.recommended.compoundTerms)
    }

    /// A note for operators; nil if SQLite's recommendation is enough.
    package var note: String? {
        guard self != Self.recommended else { return nil }
        let length =
            doublesPreserved
            ? " SQLITE_LIMIT_LENGTH must be twice the size of a row's preserved values together, for it to be deleted."
            : ""
        return
            "A connection that lowers SQLite's limits needs SQLITE_LIMIT_EXPR_DEPTH \(expressionDepth) and SQLITE_LIMIT_COMPOUND_SELECT \(compoundTerms) to use the store.\(length)"
    }

    /// Whether a connection with a limit can prepare statements.
    private static func allows(_ statements: [String], _ limit: Int32, _ value: Int32, _ path: String) throws
        -> Bool
    {
        try StoreConnection.withConnection(to: path, .read, schemaCode: .runs) { queue in
            try queue.unsafeRead { db in
                // Statements parsed so far were parsed without the limit.
                try db.execute(sql: "PRAGMA writable_schema = RESET")
                sqlite3_limit(db.sqliteConnection, limit, value)
                return statements.allSatisfy { (try? db.makeStatement(sql: $0)) != nil }
            }
        }
    }
}

extension TableSchema {
    /// One statement of each kind that writes to the table.
    fileprivate var writes: [String] {
        let columns = columns.filter { !$0.isGenerated }.map { SQLText.name($0.name) }
        let table = SQLText.name(name)
        let list = columns.joined(separator: ", ")
        let all = columns.map { "\($0) = \($0)" }.joined(separator: ", ")
        return [
            "REPLACE INTO \(table) (\(list)) SELECT \(list) FROM \(table)", "UPDATE \(table) SET \(all)",
            "DELETE FROM \(table)",
        ] + (rowid.map { ["UPDATE \(table) SET \($0) = \($0)"] } ?? [])
    }
}
