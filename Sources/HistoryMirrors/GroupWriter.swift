import PersistentHistory
import GRDB
import GRDBSQLite

/// Writes a group's lines; the page *NATS* describes them.
///
/// A line that is an object starts a section; the arrays after it are its rows:
/// - `{"schema":{…},"store":"…","floor":0}`
/// - `{"changes":["id","origin","kind","object","detail"]}`: the history, as stored.
/// - `{"rows":"person","columns":["id","name"],"whole":false}`: rows to put.
/// - `{"gone":"person","columns":["id"]}`: keys of deleted rows.
struct GroupWriter: ~Copyable {
    let body: GroupBody
    private let grown: () throws -> Void
    /// More than two need not be distinguished.
    private(set) var authors: Set<BinaryText?> = []
    private var authorship = Authorship.undeclared
    /// Tables with unrecorded changes: see `UnrecordedChanges`.
    private(set) var recreated: Set<BinaryText> = []
    private let db: Database
    private let tables: MirrorTables
    private let encoding: StoreEncoding
    private var json = JSONBytes()

    /// - Parameter grown: Called each time the body has grown.
    init(
        _ db: Database, _ tables: MirrorTables, _ body: GroupBody, grown: @escaping () throws -> Void = {}
    ) {
        self.db = db
        self.tables = tables
        self.body = body
        self.grown = grown
        encoding = tables.schema.flatMap { StoreEncoding(rawValue: $0.encoding) } ?? .utf8
    }

    /// Flushes everything into the body.
    mutating func finish() throws {
        try json.bytes.withBytes { try body.append($0) }
        json.removeAll()
        try grown()
    }

    private mutating func endLine() throws {
        json.endLine()
        guard json.count <= Lines.longest else { throw Self.tooLong }
        if json.count > 1 << 16 { try finish() }
    }

    private static let tooLong = HistoryError(
        .storeUnreadable,
        "A row is too large for a mirror: as text it is longer than \(Lines.longest >> 20) MiB.",
        hint: "Keep such values in files, or do not publish the store.")

    // MARK: Sections

    mutating func write(_ schema: MirrorSchema, _ header: HistoryHeader) throws {
        json.object { json in
            json.name("schema")
            json.raw(schema.json)
            json.member("store", header.storeID.text)
            json.member("floor", header.floor)
        }
        try endLine()
    }

    private mutating func begin(
        _ section: StaticString, of table: String, _ columns: [String], whole: Bool? = nil
    )
        throws
    {
        json.object { json in
            json.name(section)
            json.string(table)
            json.member("columns", columns)
            if let whole {
                json.member("whole", whole)
            }
        }
        try endLine()
    }

    /// Writes the history after a number.
    ///
    /// - Parameter floor: Numbers up to here may be missing.
    /// - Returns: The changed objects.
    /// - Throws: `HistoryGap` if later numbers are missing.
    mutating func writeHistory(after number: Int64, floor: Int64, isSnapshot: Bool = false) throws
        -> ChangedKeys
    {
        json.object { json in
            json.member("changes", Self.changeColumns)
        }
        try endLine()
        var changed = ChangedKeys()
        var decoder = ChangeDecoder(encoding: encoding) { [tables] in tables.shapes[$0] }
        let sql =
            "SELECT \(Self.changeColumns.joined(separator: ", ")) FROM historyd_change WHERE id > ? ORDER BY id"
        let rows = try db.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(rows)
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        var last: [UInt8] = []
        var (end, written) = (number, number)
        while try rows.step(db) {
            let id = sqlite3_column_int64(rows, 0)
            if let gap = HistoryGap(after: end, before: id, floor: floor) { throw gap }
            end = id
            let passing = try passing(rows)
            if case .nothing = passing { continue }
            written = id
            // Nearly always text, and the same as in the row before.
            let origin = rows.textBytes(1)
            if origin.map({ !$0.elementsEqual(last) }) ?? true {
                last = origin.map { Array($0) } ?? []
                note(HistoryValue(rows, 1))
            }
            json.array { json in
                for column in 0..<Int32(Self.changeColumns.count - 1) { Self.write(rows, column, to: &json) }
                if case .notice(let names) = passing {
                    json.string(UnrecordedChanges.detail(names))
                } else {
                    Self.write(rows, Int32(Self.changeColumns.count - 1), to: &json)
                }
            }
            try endLine()
            // A snapshot contains all rows anyway.
            if isSnapshot { continue }
            if let (entity, _) = try decoder.kind(rows) {
                changed.insert(try decoder.objectID(rows, entity), of: entity)
            } else if let names = try UnrecordedChanges.entities(rows) {
                recreated.formUnion(names.asBinary)
            }
        }
        // The mark moves over what was left out.
        if end > written {
            json.array { json in
                for value in [
                    HistoryValue.integer(end), .integer(0), .integer(RecordingFormat.kind(shape: 0, .void)),
                    .null, .text(EntityChoice.mark),
                ] {
                    HistoryJSON.write(value, to: &json)
                }
            }
            try endLine()
        }
        return changed
    }

    /// What of a row of the history goes through.
    private enum Passing {
        case nothing, everything
        /// A note of unrecorded changes, with these names.
        case notice([String])
    }

    private func passing(_ row: OpaquePointer) throws -> Passing {
        guard !tables.entities.isAll else { return .everything }
        let kind = sqlite3_column_int64(row, 2)
        guard kind & 3 == 3 else { return tables.isChosen(kind: kind) ? .everything : .nothing }
        let names = try UnrecordedChanges.entities(row)?.filter { tables.entities.contains($0) } ?? []
        return names.isEmpty ? .nothing : .notice(names)
    }

    static let changeColumns = ["id", "origin", "kind", "object", "detail"]

    private mutating func note(_ origin: HistoryValue) {
        guard authors.count < 2 else { return }
        if case .text(let text) = origin {
            let origin = Origin.declared(text, like: authorship)
            authorship = origin.authorship
            authors.insert(origin.author.map { BinaryText($0) })
        } else {
            authors.insert(nil)
        }
    }

    // MARK: Rows

    /// Writes the rows of changed objects, and all rows of some tables.
    mutating func writeRows(_ changed: ChangedKeys, whole: Set<BinaryText>) throws {
        for (name, table) in tables.tables.sorted(by: { $0.key < $1.key }) {
            let keys = changed.entities[name]
            // The history of a table in doubt may lack a deleted row, so each change sends all rows.
            if whole.contains(name) || recreated.contains(name) || keys != nil && !table.schema.doubts.isEmpty {
                try writeAll(of: table)
            } else if let keys {
                try write(keys, of: table)
            }
        }
    }

    private mutating func writeAll(of table: RowTable) throws {
        try begin("rows", of: table.schema.name, table.columns, whole: true)
        try db.rows(table.select) { rows in while try rows.step(db) { try writeRow(rows) } }
    }

    private mutating func writeRow(_ rows: OpaquePointer) throws {
        json.array { json in
            for column in 0..<sqlite3_column_count(rows) { Self.write(rows, column, to: &json) }
        }
        try endLine()
    }

    /// Writes a column of a statement's row. Most text is ASCII, and needs no check.
    private static func write(_ rows: OpaquePointer, _ column: Int32, to json: inout JSONBytes) {
        if let text = rows.textBytes(column), text.allSatisfy({ $0 < 0x80 }) {
            json.string(text)
        } else {
            HistoryJSON.write(HistoryValue(rows, column), to: &json)
        }
    }

    private mutating func write(_ keys: ChangedKeys.Entity, of table: RowTable) throws {
        let integers = keys.distinctIntegers
        var objects: [ObjectID] = []
        for text in keys.texts.sorted() {
            // A key of an older shape no longer identifies a row, so all rows are sent.
            guard let object = table.key.object(text.text) else { return try writeAll(of: table) }
            objects.append(object)
        }
        guard integers.isEmpty || table.key.integer != nil else { return try writeAll(of: table) }
        var goneIntegers: [Int64] = []
        var goneObjects: [ObjectID] = []
        try begin("rows", of: table.schema.name, table.columns, whole: false)
        for integer in integers where try !table.read(integer, db, { try writeRow($0) }) {
            goneIntegers.append(integer)
        }
        for object in objects where try !table.read(object, db, { try writeRow($0) }) {
            goneObjects.append(object)
        }
        try writeGone(goneIntegers, goneObjects, of: table)
    }

    private mutating func writeGone(_ integers: [Int64], _ objects: [ObjectID], of table: RowTable)
        throws
    {
        let rowid = table.schema.rowid.map { [$0] } ?? []
        let key: [String] = table.schema.primaryKey.isEmpty ? rowid : table.schema.primaryKey
        let (byRowid, byKey) = (
            objects.filter(table.key.isByRowid), objects.filter { !table.key.isByRowid($0) }
        )
        if !integers.isEmpty || !byKey.isEmpty {
            try begin("gone", of: table.schema.name, key)
            for integer in integers { try writeKey([.integer(integer)]) }
            for object in byKey { try writeKey(object.values) }
        }
        if !byRowid.isEmpty {
            try begin("gone", of: table.schema.name, rowid)
            for object in byRowid { try writeKey(object.values) }
        }
    }

    private mutating func writeKey(_ values: [HistoryValue]) throws {
        json.array { json in for value in values { HistoryJSON.write(value, to: &json) } }
        try endLine()
    }
}

/// The objects that a range of history rows changed, each once, by entity. The form saves memory for huge
/// transactions.
struct ChangedKeys {
    struct Entity {
        /// The keys of objects with an integer key.
        fileprivate(set) var integers: [Int64] = []
        /// The keys of all others; see `ObjectID.keyText`.
        fileprivate(set) var texts: Set<BinaryText> = []

        /// In ascending order, without duplicates.
        var distinctIntegers: [Int64] {
            var distinct: [Int64] = []
            distinct.reserveCapacity(integers.count)
            for integer in integers.sorted() where integer != distinct.last { distinct.append(integer) }
            return distinct
        }
    }

    /// By entity name.
    private(set) var entities: [BinaryText: Entity] = [:]

    mutating func insert(_ object: ObjectID, of entity: PersistentHistory.Entity) {
        if let integer = object.integer(in: entity) {
            entities[entity.name, default: Entity()].integers.append(integer)
        } else {
            entities[entity.name, default: Entity()].texts.insert(object.keyText)
        }
    }
}
