import GRDB
import GRDBSQLite

/// A condition on the rows of one of the store's tables, for one schema version.
struct TableCondition: Sendable {
    /// The condition does not fit the table.
    struct Unfit: Error {
        let message: String

        init(_ message: String) { self.message = message }
    }

    let columns: [String]
    private let table: RowTable
    private let database: ConditionDatabase
    private let compiled: ConditionDatabase.Compiled
    private let byKey: String
    private let byRowid: String

    /// - Throws: `Unfit`.
    init(_ condition: RowCondition, _ table: RowTable, _ database: ConditionDatabase) throws(Unfit) {
        do throws(ConditionDatabase.Problem) {
            compiled = try database.compiled(condition.expression)
        } catch {
            throw Unfit("\"\(condition.expression.text)\" does not fit the table: \(error.message)")
        }
        self.table = table
        self.database = database
        columns = compiled.columns
        let list = columns.isEmpty ? "1" : columns.map(SQLText.name).joined(separator: ", ")
        let select = "SELECT \(list) FROM main.\(SQLText.name(table.schema.name)) WHERE "
        byKey = SQLText.cacheable(select + table.key.matches)
        byRowid = SQLText.cacheable(select + table.key.matchesRowid)
    }

    /// Whether it is true of a changed row in its present state, or of a deleted one according to its
    /// tombstone.
    func verdict(on change: HistoryChange, _ db: Database) throws -> RowVerdict {
        if change.operation == .delete {
            // A row that was deleted before a column was preserved cannot be evaluated, and is delivered.
            return Self.values(of: change, columns).map { database.verdict(compiled, $0) } ?? .wanted
        }
        // The row was deleted, or now has another kind of key: its delete follows.
        guard let values = try values(of: change.objectID, db) else { return .unwanted }
        return database.verdict(compiled, values)
    }

    private func values(of object: ObjectID, _ db: Database) throws -> [HistoryValue]? {
        guard table.key.fits(object) else { return nil }
        let sql = table.key.isByRowid(object) ? byRowid : byKey
        let row = try db.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(row)
        defer { sqlite3_reset(row) }
        row.bind(object.values)
        guard try row.step(db) else { return nil }
        return columns.indices.map { HistoryValue(row, Int32($0)) }
    }

    /// Nil if a value is unknown.
    private static func values(of deletion: HistoryChange, _ columns: [String]) -> [HistoryValue]? {
        var values: [HistoryValue] = []
        for column in columns {
            if let kept = deletion.tombstone?.values.first(where: { $0.column.name.hasSameBytes(as: column) }) {
                values.append(kept.value)
            } else if let place = deletion.objectID.columns.firstIndex(where: { $0.hasSameBytes(as: column) }),
                !deletion.objectID.isRowID
            {
                values.append(deletion.objectID.values[place])
            } else {
                return nil
            }
        }
        return values
    }
}

extension ConditionDatabase {
    /// For the rows of a store's table.
    convenience init(of table: TableSchema, in db: Database) throws {
        let columns = try table.columns.map { column in
            var collation: UnsafePointer<CChar>?
            let result = sqlite3_table_column_metadata(
                db.sqliteConnection, "main", table.name, column.name, nil, &collation, nil, nil, nil)
            guard result == SQLITE_OK else { throw DatabaseError(lastOf: db) }
            return Column(
                name: column.name, declaredType: column.declaredType,
                collation: collation.map { String(cString: $0) } ?? "BINARY")
        }
        do {
            try self.init(columns: columns, isStrict: table.isStrict)
        } catch let error as DatabaseError {
            throw TableCondition.Unfit(
                "conditions cannot be decided for \"\(table.name)\": \(error.message ?? "\(error)")")
        }
    }
}

extension RowCondition {
    /// Why a text is not a single expression; nil if it may be one.
    package static func problem(of expression: String) -> String? { ConditionDatabase.problem(of: expression) }

    /// Why a hook or a feed cannot use the condition on a store in its present state; nil if it can.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - takesDeletes: Whether it is also for deleted rows, of which only the preserved columns are
    ///     known.
    ///   - mayLackTable: Whether a store without the table is simply not concerned.
    /// - Throws: `HistoryError` if the store cannot be read.
    package func problem(in path: String, takesDeletes: Bool, mayLackTable: Bool) throws -> String? {
        try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db -> String? in
                guard try StoreRecorder.hasRecordedHistory(db) else { return nil }
                if mayLackTable, try StoreSchema(db).table(entity.text) == nil { return nil }
                let condition: TableCondition
                do {
                    condition = try RowTables().condition(self, db)
                } catch let error as TableCondition.Unfit {
                    return error.message
                }
                guard takesDeletes, let tracked = try EntityCatalog(db).tracked[entity.text] else { return nil }
                let known = Set(names: tracked.preserved.map(\.name) + tracked.key.columns)
                let unknown = condition.columns.filter { !known.contains($0) }
                if unknown.isEmpty { return nil }
                let options = unknown.map { "--preserve \(entity.text).\($0)" }.joined(separator: " ")
                return
                    "of a deleted row only preserved columns are known, and \(unknown.quoted) is not preserved: historyctl track \(path) \(options) (or take \"delete\" out of the operations)"
            }
        }
    }
}
