/// What a row will hold, where the triggers that run before a change see something else.
extension TriggerWriter {
    /// A column of the row that is to come. Where REPLACE meets a null that must not be, the column's
    /// default takes its place, but only after the triggers that run before
    /// (https://www.sqlite.org/lang_conflict.html).
    func coming(_ name: String) -> String {
        let given = column("NEW", name)
        let standIn = table.columns.first { $0.name.hasSameBytes(as: name) }?.defaultForNull
        return standIn.map { "coalesce(\(given), \($0.sql))" } ?? given
    }

    /// An index's expression, asked of the row that is to come: its columns are found in a row of
    /// one made of NEW's, so that the expression itself need not be understood.
    func onNew(_ expression: String, of uniqueness: Uniqueness) -> String {
        let columns = uniqueness.columns.map { "\(coming($0)) AS \(SQLText.name($0))" }
        let source = columns.isEmpty ? "1" : columns.joined(separator: ", ")
        return "(SELECT (\(expression)) FROM (SELECT \(source)) AS \(row))"
    }
}
