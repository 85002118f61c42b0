import PersistentHistory
import GRDB
import GRDBSQLite

/// Applies the lines of one group within a transaction on a mirror.
struct MirrorWriter {
    private let db: Database
    private let isSnapshot: Bool
    /// The id of the group's store.
    private let store: String
    /// The tables that the mirror has; changes and rows of others are passed over.
    private let entities: EntityChoice
    /// The last change that is in the mirror.
    private var written: Int64?
    private let old: ReplicaShape
    /// What the mirror contains now.
    private(set) var sections: MirrorSections
    private var schema: MirrorSchema?
    /// Tables of which all rows were received.
    private var whole: Set<BinaryText> = []

    private var section: MirrorSections.Section?
    private var statement: Statement?
    /// Writes several rows: see `rowsAtOnce`.
    private var bulk: Statement?
    /// The values of rows that are not written yet.
    private var values: [LineValue] = []
    /// The number of the last change.
    private var last: Int64?
    private var floor: Int64 = 0
    private var changes: ChangeCheck
    /// The mirror's position: the mirror had the group's history up to here already, and may have cleaned it.
    private let position: StreamPosition?
    private var known: Int64 { position?.number ?? 0 }

    /// - Parameters:
    ///   - found: What the mirror contains.
    ///   - position: The position of its last change.
    init(
        _ db: Database, _ found: MirrorSections, after position: StreamPosition?, isSnapshot: Bool,
        of store: String, _ entities: EntityChoice
    ) throws {
        self.db = db
        self.entities = entities
        self.position = isSnapshot ? nil : position
        self.store = store
        changes = found.changes
        self.isSnapshot = isSnapshot
        // A snapshot rebuilds all tables, because another program may have changed one.
        if isSnapshot { try ReplicaShape().makeTables(db, insteadOf: found.shape) }
        sections = isSnapshot ? MirrorSections(ReplicaShape(), entities) : found
        old = sections.shape
    }

    /// - Throws: `MirrorError`, `DatabaseError`, `UnexpectedValue`, `ReplicaSchemaCheck.Refusal`.
    mutating func take(_ line: UnsafeBufferPointer<UInt8>) throws {
        guard line.first == UInt8(ascii: "{") else { return try takeValues(line) }
        if let section = sections.known(line) { return try begin(section) }
        guard line.count <= Lines.longestBeginning else {
            throw MirrorError.malformed("a section's beginning is longer than \(Lines.longestBeginning) bytes")
        }
        let content = try MirrorLine(line)
        if let schema = content.schema {
            try take(schema, store: content.store, floor: content.floor)
        } else {
            try begin(try sections.section(content, line, db))
        }
    }

    /// Rows are written in batches: one statement per row takes a third longer for a snapshot.
    private static let rowsAtOnce = 16
    /// Keeps a statement below SQLite's limit of parameters (https://www.sqlite.org/limits.html).
    private static let mostColumnsAtOnce = 1000

    private mutating func begin(_ section: MirrorSections.Section) throws {
        try writeRows()
        guard section.kind != .passedOver else {
            (self.section, statement, bulk) = (section, nil, nil)
            return
        }
        if let table = section.whole {
            try db.execute(sql: "DELETE FROM main.\(SQLText.name(table))")
            whole.insert(table)
        }
        statement = try db.cachedStatement(sql: SQLText.cacheable(section.sql))
        let isBulk = isSnapshot && section.kind != .gone && section.width <= Self.mostColumnsAtOnce
        bulk = isBulk ? try db.cachedStatement(sql: SQLText.cacheable(section.sql(rows: Self.rowsAtOnce))) : nil
        self.section = section
    }

    // MARK: Schema

    private mutating func take(_ schema: MirrorSchema, store: String?, floor: Int64?) throws {
        guard section == nil, self.schema == nil else {
            throw MirrorError.malformed("the schema comes after rows")
        }
        guard let store = store.flatMap({ StoreID($0) }), let floor, HistoryPosition.range.contains(floor)
        else {
            throw MirrorError.malformed("a schema comes without its store")
        }
        guard store.text == self.store else { throw MirrorError.malformed("the schema is of another store") }
        self.floor = floor
        guard schema.format <= RecordingFormat.version else {
            throw HistoryError(
                .formatTooNew,
                "The source's history has format \(schema.format); this program knows up to \(RecordingFormat.version).",
                hint: "Use a newer historyd-nats.")
        }
        try Self.check(schema)
        self.schema = schema
        let schema = schema.passingOverOthers(than: entities)
        let shape = ReplicaShape(
            tables: Dictionary(
                schema.tables.map { (BinaryText($0.name), ReplicaShape.Table(sql: $0.sql, shape: $0.shape)) }
            ) { first, _ in first },
            indexes: Dictionary(
                schema.indexes.map { (BinaryText($0.name), ReplicaShape.Index(entity: $0.table, sql: $0.sql)) }
            ) { first, _ in first })
        sections = MirrorSections(shape, entities)
        try shape.makeTables(db, insteadOf: old)
        for table in schema.tables where shape.newTables(in: old).contains(table.name) {
            for statement in MirrorFormat.guards(of: table) { try db.runSchemaStatement(statement) }
        }
        try db.execute(sql: "DELETE FROM historyd_entity")
        let insert = try db.cachedStatement(sql: "INSERT INTO historyd_entity VALUES (?, ?, ?, ?)")
        for shape in schema.shapes {
            try insert.execute(arguments: [shape.shape, shape.name, shape.definition, shape.tracked])
        }
        try db.execute(
            sql: "INSERT OR REPLACE INTO historyd_store VALUES ('format', ?), ('id', ?)",
            arguments: [schema.format, store.text])
        do {
            try sections.readShapes(db)
        } catch let error as UnexpectedValue {
            throw MirrorError.malformed(error.message)
        } catch let error as HistoryError {
            throw MirrorError.malformed(error.message)
        }
        changes = sections.changes
        guard isSnapshot else { return }
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO historyd_store VALUES ('floor', ?);
                DELETE FROM historyd_store WHERE key IN ('cleaned', 'cleaned for', 'entities');
                DELETE FROM historyd_change
                """, arguments: [floor])
        guard let digest = try entities.digest else { return }
        try db.execute(sql: "INSERT INTO historyd_store VALUES ('entities', ?)", arguments: [digest])
    }

    /// Definitions come from the network: each is first tried in a database of its own.
    private static func check(_ schema: MirrorSchema) throws {
        let check = try ReplicaSchemaCheck()
        for table in schema.tables {
            guard RecordingFormat.shapes.contains(table.shape) else {
                throw MirrorError.malformed("a table has no shape")
            }
            try check.checkTable(table.name, table.sql)
        }
        for index in schema.indexes { try check.checkIndex(index.name, on: index.table, index.sql) }
        try check.close()
    }

    // MARK: Rows

    private mutating func takeValues(_ line: UnsafeBufferPointer<UInt8>) throws {
        guard let section else { throw MirrorError.malformed("values come before their section") }
        if section.kind == .passedOver { return }
        let start = values.count
        try ValueLine.append(line, to: &values, atMost: section.width)
        guard values.count - start == section.width else {
            throw MirrorError.malformed(
                "a row has \(values.count - start) values, and its section \(section.width) columns")
        }
        if section.kind == .changes {
            try checkChange(values[start...])
            if let last, last <= known {
                // If it were written again, it would stay forever: the cleaner does not return to it.
                try checkOverlap(at: last)
                if last == known { try checkPosition(values[start...]) }
                return values.removeSubrange(start...)
            }
            guard try isWanted(values[start...]) else { return values.removeSubrange(start...) }
            written = last
        }
        if bulk == nil || values.count == section.width * Self.rowsAtOnce { try writeRows() }
    }

    /// Writes the pending rows, whose values may be in the memory of their lines.
    mutating func writeRows() throws {
        guard let statement, let section, !values.isEmpty else { return }
        defer { values.removeAll(keepingCapacity: true) }
        if let bulk, values.count == section.width * Self.rowsAtOnce { return try bulk.write(db, values[...]) }
        for start in stride(from: 0, to: values.count, by: section.width) {
            try statement.write(db, values[start..<start + section.width])
        }
        if section.kind == .changes, !isSnapshot, let last, sqlite3_changes64(db.sqliteConnection) == 0 {
            try checkOverlap(at: last)
        }
    }

    /// Checks that a change that is already present is the same; the cleaner may have emptied or deleted it.
    private func checkOverlap(at number: Int64) throws {
        let found = try Row.fetchOne(
            try db.cachedStatement(
                sql: "SELECT origin FROM historyd_change WHERE id = ? AND NOT (origin IS 0 AND kind & 3 IS 3)"),
            arguments: [number])
        guard let found, HistoryValue(found[0] as DatabaseValue) != values[values.endIndex - Self.overlap].copy
        else { return }
        throw Self.isOther(at: number)
    }

    private static func isOther(at number: Int64) -> MirrorError {
        .needsSnapshot("the source's history is another one at \(number)")
    }

    /// Checks that the change at the mirror's position is the one that it was, whether the mirror keeps changes of its table
    /// or not.
    private func checkPosition(_ change: ArraySlice<LineValue>) throws {
        guard let known = position?.fingerprint, case .value(.integer(let kind)) = change[change.startIndex + 2]
        else { return }
        if kind & 3 == 3, case .value(.null) = change[change.startIndex + 3] { return }
        let origin: String
        switch change[change.startIndex + 1].copy {
        case .integer(let milliseconds): origin = String(milliseconds)
        case .text(let text): origin = text
        default: return
        }
        var digest = StreamPosition.Digest()
        if try digest.of(HistoryBatch.fingerprint(origin.utf8)) != known { throw Self.isOther(at: self.known) }
    }

    /// Whether a change is of one of the mirror's tables. A note of unrecorded changes stays with all its names.
    private func isWanted(_ values: ArraySlice<LineValue>) throws(MirrorError) -> Bool {
        guard !entities.isAll, case .value(.integer(let kind)) = values[values.startIndex + 2] else {
            return true
        }
        guard kind & 3 == 3 else {
            return sections.entity(ofKind: kind).map { entities.contains($0) } ?? false
        }
        return try ChangeCheck.notice(kind, values[values.startIndex + 3], values[values.startIndex + 4])
            .contains { entities.contains($0) }
    }

    /// Puts an emptied change at the mirror's end where the last one was left out, because its number counts.
    /// A later end takes its place.
    private func moveMark() throws {
        guard let last, last > known else { return }
        try db.cachedStatement(
            sql:
                "DELETE FROM historyd_change WHERE id = ? AND kind IS 3 AND object IS NULL AND detail IS ?"
        ).execute(arguments: [known, EntityChoice.mark])
        guard written != last else { return }
        try db.cachedStatement(sql: "INSERT INTO historyd_change VALUES (?, 0, 3, NULL, ?)")
            .execute(arguments: [last, EntityChoice.mark])
    }

    /// How many of the five values of a change follow from its origin on.
    private static let overlap = 4

    private mutating func checkChange(_ values: ArraySlice<LineValue>) throws {
        guard case .value(.integer(let id)) = values[values.startIndex], HistoryPosition.range.contains(id),
            id > last ?? 0, case .value(.integer(let kind)) = values[values.startIndex + 2]
        else { throw MirrorError.malformed("a change has no number that follows the one before") }
        try changes.check(
            kind: kind, object: values[values.startIndex + 3], detail: values[values.startIndex + 4])
        last = id
    }

    // MARK: End

    /// - Parameter position: The mirror's new position.
    mutating func finish(through position: StreamPosition) throws {
        try writeRows()
        try moveMark()
        let shape = sections.shape
        guard position.number >= last ?? 0, isSnapshot || position.number == last else {
            throw MirrorError.malformed("the history does not end at \(position.number)")
        }
        guard floor <= position.number else {
            throw MirrorError.malformed("the history begins behind its end, \(position.number)")
        }
        if isSnapshot, schema == nil { throw MirrorError.malformed("a snapshot has no schema") }
        guard try schema.map({ try $0.digest == position.schema }) ?? true else {
            throw MirrorError.malformed("the schema is not the one of the position")
        }
        if schema != nil {
            let missing = shape.newTables(in: old).subtracting(whole)
            if let table = missing.min() { throw MirrorError.needsSnapshot("the table \"\(table)\" is new") }
        }
        if isSnapshot, let table = Set(shape.tables.keys).subtracting(whole).min() {
            throw MirrorError.malformed("the snapshot lacks the table \"\(table)\"")
        }
        if schema != nil { _ = try shape.makeIndexes(db, insteadOf: old) }
    }
}
