import PersistentHistory
internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// What a mirror contains, and how to read the sections of groups: consecutive groups have the same sections.
struct MirrorSections {
    /// What a section's first line says about its rows.
    struct Section {
        enum Kind { case changes, rows, gone, passedOver }

        let kind: Kind
        let sql: String
        /// The number of values in a row.
        let width: Int
        /// The table of which all rows are sent.
        var whole: String?

        /// The statement for several rows; not for deleted ones.
        func sql(rows: Int) -> String {
            let row = ", (" + Array(repeating: "?", count: width).joined(separator: ", ") + ")"
            return sql + String(repeating: row, count: rows - 1)
        }
    }

    let shape: ReplicaShape
    private let entities: EntityChoice
    /// The entities and columns to which history rows may refer.
    private(set) var changes = ChangeCheck([:], .utf8)
    /// Nil if a group has changed the schema.
    private let version: Int64?
    private var sections: [[UInt8]: Section] = [:]
    /// The columns of each table, with the names of its rowid.
    private var columns: [BinaryText: Set<BinaryText>] = [:]

    /// Reads what the mirror contains.
    init(_ db: Database, _ entities: EntityChoice) throws {
        self.init(try ReplicaShape(replica: db), entities, version: try Self.version(db))
        try readShapes(db)
    }

    /// Reads the entities to which history rows may refer.
    mutating func readShapes(_ db: Database) throws {
        let encoding = try String.fetchOne(db, sql: "PRAGMA encoding").flatMap { StoreEncoding(rawValue: $0) }
        changes = ChangeCheck(try EntityCatalog(db).shapes, encoding ?? .utf8)
    }

    init(_ shape: ReplicaShape, _ entities: EntityChoice, version: Int64? = nil) {
        self.shape = shape
        self.entities = entities
        self.version = version
    }

    /// The name of the entity of a change's kind.
    func entity(ofKind kind: Int64) -> String? { changes.entity(ofKind: kind) }

    /// Whether no other connection has written anything since this was read.
    func areCurrent(_ db: Database) throws -> Bool { try Self.version(db) == version }

    /// See https://www.sqlite.org/pragma.html#pragma_data_version.
    private static func version(_ db: Database) throws -> Int64 {
        try db.firstRow("PRAGMA data_version") { sqlite3_column_int64($0, 0) }
    }

    /// No store has more tables. The limit is needed because lines come from the network.
    private static let most = 1 << 12

    /// - Returns: Nil for a line that is not cached.
    func known(_ line: UnsafeBufferPointer<UInt8>) -> Section? { sections[Array(line)] }

    /// - Parameter line: Parsed from `bytes`; a line without a schema.
    mutating func section(_ line: MirrorLine, _ bytes: UnsafeBufferPointer<UInt8>, _ db: Database) throws
        -> Section
    {
        let section = try make(line, db)
        if sections.count >= Self.most { sections = [:] }
        sections[Array(bytes)] = section
        return section
    }

    private mutating func make(_ line: MirrorLine, _ db: Database) throws -> Section {
        if let names = line.changes {
            guard names == GroupWriter.changeColumns else {
                throw MirrorError.malformed("the history has other columns")
            }
            return Section(
                kind: .changes, sql: "INSERT OR IGNORE INTO historyd_change VALUES (?, ?, ?, ?, ?)",
                width: names.count)
        }
        if let table = line.rows ?? line.gone, !entities.contains(table) {
            return Section(kind: .passedOver, sql: "", width: 0)
        }
        if let table = line.rows, let columns = line.columns {
            try check(table, columns, db)
            let list = columns.map(SQLText.name).joined(separator: ", ")
            let parameters = columns.map { _ in "?" }.joined(separator: ", ")
            return Section(
                kind: .rows,
                sql: "INSERT OR REPLACE INTO main.\(SQLText.name(table)) (\(list)) VALUES (\(parameters))",
                width: columns.count, whole: line.whole ?? false ? table : nil)
        }
        if let table = line.gone, let columns = line.columns {
            try check(table, columns, db)
            let condition = columns.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
            return Section(
                kind: .gone, sql: "DELETE FROM main.\(SQLText.name(table)) WHERE \(condition)",
                width: columns.count)
        }
        throw MirrorError.malformed("a section is of no known kind")
    }

    /// Checks the names: SQLite treats a quoted name that does not exist as text.
    private mutating func check(_ table: String, _ names: [String], _ db: Database) throws {
        guard shape.tables[table] != nil else {
            throw MirrorError.needsSnapshot("it has no table \"\(table)\"")
        }
        let known =
            try columns[table]
            ?? Set(
                names: String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [table])
            )
            .union(["_rowid_", "rowid", "oid"])
        columns[table] = known
        guard !names.isEmpty, known.isSuperset(of: names.asBinary) else {
            throw MirrorError.needsSnapshot("its table \"\(table)\" has other columns")
        }
    }
}

/// A line that starts a section of a group; see `GroupWriter`.
struct MirrorLine: Decodable {
    let schema: MirrorSchema?
    let store: String?
    let floor: Int64?
    let changes: [String]?
    let rows: String?
    let gone: String?
    let columns: [String]?
    let whole: Bool?

    /// - Throws: `MirrorError.malformed`.
    init(_ line: UnsafeBufferPointer<UInt8>) throws(MirrorError) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(line))
        } catch {
            throw .malformed("a section's beginning cannot be read")
        }
    }
}

/// Checks that every reader of the mirror can read a history row as a change: the row comes from the network.
struct ChangeCheck {
    private let shapes: [Int64: Entity]
    private let encoding: StoreEncoding
    /// Consecutive rows are usually of one kind. Nil if object and detail must be checked.
    private var plainKind: Int64?

    init(_ shapes: [Int64: Entity], _ encoding: StoreEncoding) {
        self.shapes = shapes
        self.encoding = encoding
    }

    /// - Throws: `MirrorError.malformed`.
    mutating func check(kind: Int64, object: LineValue, detail: LineValue) throws(MirrorError) {
        if kind == plainKind { return }
        if kind & 3 == 3 {
            _ = try Self.notice(kind, object, detail)
            return
        }
        guard let entity = shapes[kind >> 2] else {
            throw .malformed("a change has the shape \(kind >> 2), which the schema does not describe")
        }
        let hasList = kind & 3 == 2 && !entity.preserved.isEmpty && !entity.hasPlainTombstone
        if case .columns(let names) = entity.key {
            let isRowid = Self.text(object)?.hasPrefix("rowid:") ?? false
            guard isRowid || isList(object, of: names.count) else {
                throw .malformed("a change of \"\(entity.name)\" does not name its row")
            }
        } else if !hasList {
            plainKind = kind
        }
        guard !hasList || isList(detail, of: entity.preserved.count) else {
            throw .malformed("a change of \"\(entity.name)\" has another number of preserved values")
        }
    }

    /// The names in a note of unrecorded changes, which are none in any other row; see `UnrecordedChanges`.
    static func notice(_ kind: Int64, _ object: LineValue, _ detail: LineValue) throws(MirrorError) -> [String]
    {
        guard kind == RecordingFormat.kind(shape: 0, .void), text(object) == UnrecordedChanges.object,
            let names = text(detail)
        else { return [] }
        guard let names = try? JSONDecoder().decode([String].self, from: Data(names.utf8)), !names.isEmpty
        else {
            throw .malformed("a note of unrecorded changes names no entities")
        }
        return names
    }

    func entity(ofKind kind: Int64) -> String? { shapes[kind >> 2]?.name }

    private func isList(_ value: LineValue, of count: Int) -> Bool {
        Self.text(value).flatMap { ValueList.values($0, encoding: encoding) }?.count == count
    }

    private static func text(_ value: LineValue) -> String? {
        if case .text(let text) = value.copy { text } else { nil }
    }
}
