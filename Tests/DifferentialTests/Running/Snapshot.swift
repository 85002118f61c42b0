import PersistentHistory

/// A row's identity as the contract defines it: its primary key, or its rowid where it has none
/// or where the key has a null in it.
struct ObjectKey: Hashable, CustomStringConvertible {
    let table: BinaryText
    let isRowid: Bool
    let values: [Cell]

    func moved(to table: BinaryText) -> ObjectKey { ObjectKey(table: table, isRowid: isRowid, values: values) }

    var description: String { "\(table)\(isRowid ? " rowid" : "") \(values)" }
}

/// How a table's rows are read, as SQLite's pragmas tell it.
struct TableShape {
    let name: BinaryText
    let columns: [BinaryText]
    private let key: [Int]
    private let select: String
    private let hasRowid: Bool

    /// All tables of a store but the history's own.
    static func all(_ connection: Connection) throws -> [TableShape] {
        let tables = try connection.rows(
            """
            SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
            AND substr(name, 1, 9) <> 'historyd_' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name
            """)
        return try (tables ?? []).map { row in
            guard case .text(let name) = row[0] else {
                throw Connection.Failure(description: "A nameless table.")
            }
            return try TableShape(
                String(decoding: name, as: UTF8.self), isWithoutRowid: row[1] != .integer(0), connection)
        }
    }

    private init(_ name: String, isWithoutRowid: Bool, _ connection: Connection) throws {
        let literal =
            "'" + name.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
        let info = try connection.rows("SELECT name, pk FROM pragma_table_xinfo(\(literal))") ?? []
        let columns = info.map { row -> BinaryText in
            if case .text(let name) = row[0] { BinaryText(String(decoding: name, as: UTF8.self)) } else { "" }
        }
        let places = info.enumerated().compactMap { position, row -> (Int64, Int)? in
            if case .integer(let place) = row[1], place > 0 { (place, position) } else { nil }
        }
        let rowid = ["_rowid_", "oid", "rowid"].first { name in
            !columns.contains { $0.text.lowercased() == name }
        }
        self.name = BinaryText(name)
        self.columns = columns
        key = places.sorted { $0.0 < $1.0 }.map(\.1)
        hasRowid = !isWithoutRowid && rowid != nil
        let list = columns.map { SQL.quoted($0.text) } + (hasRowid ? [rowid ?? ""] : [])
        select = "SELECT \(list.joined(separator: ", ")) FROM \(SQL.quoted(name))"
    }

    /// - Parameter withRowids: Also those of rows that are known by a key.
    /// - Returns: Nil while another has a lock.
    func rows(_ connection: Connection, withRowids: Bool) throws -> [ObjectKey: [Cell]]? {
        guard let rows = try connection.rows(select) else { return nil }
        var byKey: [ObjectKey: [Cell]] = [:]
        for row in rows {
            let key = identity(row)
            byKey[key] = withRowids || key.isRowid ? row : Array(row.prefix(columns.count))
        }
        guard byKey.count == rows.count else {
            throw Connection.Failure(description: "Two rows of \(name) have one identity: \(rows)")
        }
        return byKey
    }

    private func identity(_ row: [Cell]) -> ObjectKey {
        let values = key.map { row[$0] }
        if hasRowid, values.isEmpty || values.contains(where: \.isNull) {
            return ObjectKey(table: name, isRowid: true, values: [row[columns.count]])
        }
        return ObjectKey(table: name, isRowid: false, values: values)
    }
}

/// What all tables hold, committed.
struct Snapshot: Equatable {
    private(set) var rows: [ObjectKey: [Cell]] = [:]

    init() {}

    func without(_ table: BinaryText) -> Snapshot {
        var rest = self
        rest.rows = rows.filter { $0.key.table != table }
        return rest
    }

    func difference(from other: Snapshot) -> String {
        let keys = Set(rows.keys).union(other.rows.keys).filter { rows[$0] != other.rows[$0] }
        return keys.map {
            "\($0): \(rows[$0].map { "\($0)" } ?? "nothing"), not \(other.rows[$0].map { "\($0)" } ?? "nothing")"
        }
        .joined(separator: "\n  ")
    }

    /// Nil while another has a lock.
    init?(_ tables: [TableShape], _ connection: Connection, withRowids: Bool = true) throws {
        for table in tables {
            guard let rows = try table.rows(connection, withRowids: withRowids) else { return nil }
            self.rows.merge(rows) { first, _ in first }
        }
    }
}
