package import GRDB

/// A store's schema as SQLite's pragmas describe it. It is read by a fixed number of statements, however
/// many tables there are. A value that any thread can read and use.
package struct StoreSchema: Sendable {
    struct Table: Sendable {
        let name: String
        let type: String
        let isWithoutRowid: Bool
        let isStrict: Bool
        let sql: String
        fileprivate(set) var columns: [Column] = []
        fileprivate(set) var indexes: [Index] = []
        fileprivate(set) var foreignKeys: [ForeignKey] = []
        fileprivate(set) var triggers: [Trigger] = []
    }

    struct Column: Sendable {
        let name: String
        let declaredType: String
        let isNotNull: Bool
        let defaultText: String?
        /// The position in the primary key, from 1; 0 if it is not in the key.
        let placeInKey: Int
        let isVirtual: Bool
        let isStored: Bool
    }

    struct Index: Sendable {
        struct Term: Sendable {
            /// Nil for an expression.
            let column: String?
            let collation: String
        }
        let name: String
        let isUnique: Bool
        let isPrimaryKey: Bool
        let isPartial: Bool
        let sql: String?
        fileprivate(set) var terms: [Term] = []
    }

    struct ForeignKey: Sendable {
        let number: Int
        let parent: String
        /// Whether it changes the child's rows together with the parent's.
        let acts: Bool
        /// The child's columns, and the parent's columns that they refer to: nil for its primary key.
        fileprivate(set) var columns: [(from: String, to: String?)] = []
    }

    struct Trigger: Sendable {
        let name: String
        let sql: String
        /// Triggers run from the newest to the oldest.
        let rowid: Int64
        /// What an application's trigger does; nil for ours.
        let definition: TriggerDefinition?
        var isOurs: Bool { definition == nil }

        fileprivate init(name: String, sql: String, rowid: Int64) {
            (self.name, self.sql, self.rowid) = (name, sql, rowid)
            let isOurs = SQLText.isReserved(name)
            definition = isOurs ? nil : TriggerDefinition(sql)
        }
    }

    /// By folded name.
    private var tables: [BinaryText: Table] = [:]
    /// Triggers, indexes and tables that belong to a shape of an entity.
    private var ownObjects: [Int64: [(type: String, name: String)]] = [:]
    private(set) var hasVirtualColumnsAndReals = false
    /// Functions and collations of our connections, by folded name. The application may have more.
    private(set) var functions: Set<BinaryText> = []
    private(set) var collations: Set<BinaryText> = []
    /// The folded names of the tables whose foreign keys refer to a table, by its folded name.
    private(set) var children: [BinaryText: Set<BinaryText>] = [:]

    func table(_ name: String) -> Table? { tables[SQLText.folded(name)] }

    /// The recording objects of a shape, in an order in which they can be dropped.
    func ownObjects(ofShape shape: Int64) -> [(type: String, name: String)] {
        let order = ["trigger", "index", "table"]
        return order.flatMap { type in (ownObjects[shape] ?? []).filter { $0.type == type } }
    }

    /// The number in a name such as `historyd_7_insert`.
    static func shape(ofObject name: String) -> Int64? {
        guard name.hasBytePrefix(RecordingFormat.prefix) else { return nil }
        let rest = name.dropFirst(RecordingFormat.prefix.count)
        guard let end = rest.firstIndex(of: "_") else { return nil }
        return Int64(rest[..<end])
    }

    /// The word after the number: `insert`.
    static func role(ofObject name: String) -> String? {
        guard shape(ofObject: name) != nil else { return nil }
        return name.dropFirst(RecordingFormat.prefix.count).firstIndex(of: "_").map {
            String(name[$0...].dropFirst())
        }
    }

    /// The shapes that have a trigger, an index or a table.
    var shapesWithObjects: Set<Int64> { Set(ownObjects.keys) }

    /// The tables that can be entities, by name.
    var ordinaryTables: [Table] {
        tables.values.filter { table in
            table.type == "table" && !SQLText.isOfSQLite(table.name) && !SQLText.isReserved(table.name)
        }
        .sorted { $0.name.precedes($1.name) }
    }

    package init(_ db: Database) throws {
        try readTables(db)
        try readColumns(db)
        try readIndexes(db)
        try readForeignKeys(db)
        functions = Set(
            names: try String.fetchAll(db, sql: "SELECT name FROM pragma_function_list").map(SQLText.folded))
        collations = Set(
            names: try String.fetchAll(db, sql: "SELECT name FROM pragma_collation_list").map(SQLText.folded))
        hasVirtualColumnsAndReals = tables.values.contains { table in
            table.columns.contains(where: \.isVirtual)
                && table.columns.contains {
                    ColumnAffinity(declaredType: $0.declaredType, isStrict: table.isStrict) == .real
                }
        }
    }

    private mutating func readTables(_ db: Database) throws {
        let statements = try Row.fetchAll(
            db,
            sql: """
                SELECT rowid, CAST(type AS TEXT) AS type, CAST(name AS TEXT) AS name,
                CAST(tbl_name AS TEXT) AS tbl_name, CAST(sql AS TEXT) AS sql FROM main.sqlite_schema
                WHERE type IS NOT NULL AND name IS NOT NULL AND tbl_name IS NOT NULL
                """)
        var sql: [BinaryText: String] = [:]
        for row in statements {
            let (type, name): (String, String) = (row["type"], row["name"])
            if let shape = Self.shape(ofObject: name) { ownObjects[shape, default: []].append((type, name)) }
            if type == "table" { sql[name] = row["sql"] }
        }
        let list = try Row.fetchAll(
            db, sql: "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main'")
        for row in list {
            let name: String = row["name"]
            tables[SQLText.folded(name)] = Table(
                name: name, type: row["type"], isWithoutRowid: row["wr"], isStrict: row["strict"],
                sql: sql[name] ?? "")
        }
        for row in statements where row["type"] == "trigger" {
            tables[SQLText.folded(row["tbl_name"])]?.triggers.append(
                Trigger(name: row["name"], sql: row["sql"] ?? "", rowid: row["rowid"]))
        }
    }

    /// Ordinary tables and SQLite's own: a virtual table's columns may need a missing module.
    private static let eachTable = "FROM pragma_table_list l JOIN"
    private static let ordinary = "WHERE l.schema = 'main' AND l.type = 'table'"

    private mutating func readColumns(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT l.name AS tbl, x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden
                \(Self.eachTable) pragma_table_xinfo(l.name) x \(Self.ordinary)
                """)
        while let row = try rows.next() {
            let hidden: Int = row[6]
            tables[SQLText.folded(row[0])]?.columns.append(
                Column(
                    name: row[1], declaredType: row[2], isNotNull: row[3], defaultText: row[4],
                    placeInKey: row[5], isVirtual: hidden == 2, isStored: hidden == 3))
        }
    }

    private mutating func readIndexes(_ db: Database) throws {
        var sql: [BinaryText: String] = [:]
        let statements = try Row.fetchCursor(
            db,
            sql: """
                SELECT CAST(name AS TEXT), CAST(sql AS TEXT) FROM main.sqlite_schema
                WHERE type = 'index' AND name IS NOT NULL AND sql IS NOT NULL
                """)
        while let row = try statements.next() { sql[row[0]] = row[1] }
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT l.name AS tbl, i.name, i."unique", i.origin, i.partial, x.name, x.coll
                \(Self.eachTable) pragma_index_list(l.name) i JOIN pragma_index_xinfo(i.name) x
                \(Self.ordinary) AND x.key
                """)
        while let row = try rows.next() {
            let (table, name): (String, String) = (SQLText.folded(row[0]), row[1])
            if tables[table]?.indexes.last?.name.hasSameBytes(as: name) != true {
                tables[table]?.indexes.append(
                    Index(
                        name: name, isUnique: row[2], isPrimaryKey: row[3] == "pk", isPartial: row[4],
                        sql: sql[name]))
            }
            let last = (tables[table]?.indexes.count ?? 1) - 1
            tables[table]?.indexes[last].terms.append(
                Index.Term(column: row[5], collation: row[6] ?? "BINARY"))
        }
    }

    private mutating func readForeignKeys(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT l.name AS tbl, f.id, f."table", f."from", f."to",
                f.on_update NOT IN ('NO ACTION', 'RESTRICT') OR f.on_delete NOT IN ('NO ACTION', 'RESTRICT')
                \(Self.eachTable) pragma_foreign_key_list(l.name) f \(Self.ordinary)
                """)
        while let row = try rows.next() {
            let (table, number, parent): (String, Int, String) = (SQLText.folded(row[0]), row[1], row[2])
            if tables[table]?.foreignKeys.last?.number != number {
                tables[table]?.foreignKeys.append(ForeignKey(number: number, parent: parent, acts: row[5]))
                children[SQLText.folded(parent), default: []].insert(table)
            }
            let last = (tables[table]?.foreignKeys.count ?? 1) - 1
            tables[table]?.foreignKeys[last].columns.append((from: row[3], to: row[4]))
        }
    }

    /// Whether foreign keys lead from a table back to it, possibly through other tables and the
    /// application's triggers on them.
    func refersToItself(_ name: String) -> Bool {
        let table = BinaryText(SQLText.folded(name))
        var seen: Set<BinaryText> = []
        var next = Array(children[table] ?? [])
        while let child = next.popLast() {
            if child == table { return true }
            guard seen.insert(child).inserted else { continue }
            next += children[child] ?? []
            next += (tables[child]?.triggers ?? []).flatMap { $0.definition?.removesFrom ?? [] }
        }
        return false
    }

    /// Whether an application's trigger that runs before ours may keep a change and skip ours.
    ///
    /// Triggers of one kind run from the newest to the oldest, so ours run first until a newer one is
    /// created. That one may end the processing of the row (RAISE(IGNORE)) or the statement (RAISE(FAIL),
    /// or a conflict under FAIL), directly or through what it writes to.
    func mayBeSkipped(_ table: Table) -> Bool {
        guard let oldest = table.triggers.filter(\.isOurs).map(\.rowid).min() else { return false }
        let newer = table.triggers.filter { $0.rowid > oldest }.compactMap(\.definition).filter(\.isAfter)
        return newer.contains { $0.raisesIgnore || mayFail($0) }
    }

    private func mayFail(_ trigger: TriggerDefinition) -> Bool {
        var seen: Set<BinaryText> = []
        var next = [trigger]
        while let trigger = next.popLast() {
            if trigger.raisesFail || trigger.failsOnConflict { return true }
            for name in trigger.writesTo where seen.insert(name).inserted {
                guard let table = tables[name] else { continue }
                if SQLTokens.hasConflictClause("FAIL", table.sql) { return true }
                next += table.triggers.compactMap(\.definition)
                next += triggersAmidActions(on: name.text).map(\.definition)
            }
        }
        return false
    }

    /// The columns of a table that its triggers may see with other values, because columns of other
    /// affinities refer to them (see `ColumnAffinity.mayConvert`).
    func convertedColumns(of parent: Table) -> Set<BinaryText> {
        var converted: Set<BinaryText> = []
        func affinity(_ name: String, of table: Table) -> ColumnAffinity? {
            table.columns.first { SQLText.areSame($0.name, name) }
                .map { ColumnAffinity(declaredType: $0.declaredType, isStrict: table.isStrict) }
        }
        let key = parent.columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }
        for name in children[SQLText.folded(parent.name)] ?? [] {
            guard let child = tables[name] else { continue }
            for reference in child.foreignKeys
            where SQLText.areSame(reference.parent, parent.name) {
                for (place, column) in reference.columns.enumerated() {
                    guard let to = column.to ?? (key.indices.contains(place) ? key[place].name : nil),
                        let own = affinity(to, of: parent), let its = affinity(column.from, of: child)
                    else { continue }
                    if its.mayConvert(own) { converted.insert(SQLText.folded(to)) }
                }
            }
        }
        return converted
    }
}
