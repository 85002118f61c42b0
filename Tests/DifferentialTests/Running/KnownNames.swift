import PersistentHistory

/// How the history calls what has been altered since tracking was brought up to date: as it was known.
struct KnownNames {
    private var tables: [BinaryText: BinaryText] = [:]
    private var columns: [BinaryText: [BinaryText: BinaryText]] = [:]
    /// Tables as they are called now. What may have changed in them is not known in full, so that any
    /// update of theirs is recorded.
    private var altered: Set<BinaryText> = []
    private var mayBeAny = false
    /// Columns without a name in the history, by the table as it is called now.
    private var unknown: [BinaryText: Set<BinaryText>] = [:]

    /// A table as it is called now.
    func table(_ known: BinaryText) -> BinaryText { tables[known] ?? known }

    func column(_ known: BinaryText, of table: BinaryText) -> BinaryText { columns[table]?[known] ?? known }

    /// The columns that a change may mean. Any change may be one of columns that have no name yet.
    func columns(_ known: [BinaryText], of table: BinaryText) -> Set<BinaryText> {
        Set(known.map { column($0, of: table) }).union(unknown[self.table(table)] ?? [])
    }

    func isAltered(_ known: BinaryText) -> Bool { mayBeAny || altered.contains(table(known)) }

    mutating func alter(_ alteration: Alteration) {
        switch alteration {
        case .addColumn(let table, let column, _):
            let (table, column) = (BinaryText(table), BinaryText(column))
            altered.insert(table)
            unknown[table, default: []].insert(column)
        case .renameColumn(let table, let from, let to):
            let (table, from, to) = (BinaryText(table), BinaryText(from), BinaryText(to))
            // Those that refer to it are written again as well.
            mayBeAny = true
            if unknown[table]?.remove(from) != nil { unknown[table]?.insert(to) }
            let known = known(table)
            let column = columns[known]?.first { $0.value == from }?.key ?? from
            columns[known, default: [:]][column] = to
        case .renameTable(let from, let to):
            let (from, to) = (BinaryText(from), BinaryText(to))
            mayBeAny = true
            unknown[to] = unknown.removeValue(forKey: from)
            tables[known(from)] = to
        case .dropColumn, .dropTable, .makeAnew, .createTrigger: break
        }
    }

    private func known(_ table: BinaryText) -> BinaryText { tables.first { $0.value == table }?.key ?? table }
}
