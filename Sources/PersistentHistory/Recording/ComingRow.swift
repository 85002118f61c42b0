/// What a row will hold, where the triggers that run before a change see something else.
extension TriggerWriter {
    /// A column of the row that is to come. Where REPLACE meets a null that must not be, the column's
    /// default takes its place, but only after the triggers that run before
    /// (https://www.sqlite.org/lang_conflict.html).
    func coming(_ name: String) -> String {
        let given = column("NEW", name)
        let standIn = table.columns.first { $0.name == name }?.defaultForNull
        return standIn.map { "coalesce(\(given), \($0))" } ?? given
    }

    /// Before an insert the number of an automatic key is not known: "the value of NEW.rowid is
    /// undefined" (https://www.sqlite.org/lang_createtrigger.html), and is -1. It will be the next one.
    func comingRowid(_ name: String) -> String {
        let newest = "(SELECT max(\(rowid(row))) FROM \(tableAsRow))"
        let everGiven =
            table.isAutoincrement
            ? "(SELECT max(seq) FROM sqlite_sequence WHERE name = \(SQLText.literal(table.name)))" : "0"
        return
            "CASE WHEN \(column("NEW", name)) = -1 THEN max(coalesce(\(newest), 0), coalesce(\(everGiven), 0)) + 1 ELSE \(column("NEW", name)) END"
    }

    /// An index's expression, asked of the row that is to come: its columns are found in a row of
    /// one made of NEW's, so that the expression itself need not be understood.
    func onNew(_ expression: String) -> String {
        let columns = table.columns.map { column in
            let isRowid = table.keyIsRowid && table.primaryKey == [column.name]
            return "\(isRowid ? comingRowid(column.name) : coming(column.name)) AS \(SQLText.name(column.name))"
        }
        return "(SELECT (\(expression)) FROM (SELECT \(columns.joined(separator: ", "))) AS \(row))"
    }
}
