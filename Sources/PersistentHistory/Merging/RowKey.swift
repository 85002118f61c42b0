/// How SQL finds the rows of a table by the keys of changed objects.
struct RowKey {
    /// The column whose integers make runs; nil where several columns are the key.
    let integer: String?
    /// Whether that is the rowid, so that nothing but integers is in it.
    let isRowid: Bool
    /// The condition for the row of an object, with the key's values as arguments.
    let matches: String
    /// The same for one that is known by its rowid, though most are known by their keys.
    let matchesRowid: String
    private let table: TableSchema

    init(_ table: TableSchema) {
        self.table = table
        isRowid = table.key == .rowid || table.keyIsRowid
        matchesRowid = "\(table.rowid ?? "NULL") = ?"
        switch table.key {
        case .rowid:
            integer = table.rowid
            matches = matchesRowid
        case .column(let name):
            integer = SQLText.name(name)
            matches = "\(SQLText.name(name)) IS ?"
        case .columns(let names):
            integer = nil
            matches = names.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
        }
    }

    /// The condition for the rows whose key is an integer from one to another; never met where there is no such key.
    func isInRun(_ first: String, _ last: String, of row: String = "") -> String {
        guard let integer else { return "NULL" }
        let key = row + integer
        // Between two integers there are other numbers.
        return "\(key) BETWEEN \(first) AND \(last)" + (isRowid ? "" : " AND typeof(\(key)) = 'integer'")
    }

    /// Whether an object recorded under an older shape can still be looked up by its key.
    func fits(_ object: ObjectID) -> Bool {
        if object.isRowID { return table.rowid != nil }
        return table.key != .rowid && object.values.count == table.primaryKey.count
    }

    /// Reads the key of an object that was noted; nil where keys are of another kind by now.
    func object(_ keyText: String) -> ObjectID? {
        guard let object = ObjectID(keyText: keyText, keyedBy: table.key), fits(object) else { return nil }
        return object
    }

    /// Whether an object is looked up by its rowid, and not by its key.
    func isByRowid(_ object: ObjectID) -> Bool { object.isRowID && table.key != .rowid }
}
