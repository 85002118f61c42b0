import PersistentHistory

/// Writes transactions in the requested format. A large one is written part by part.
struct TransactionWriter: ~Copyable {
    private let format: HistoryFormat
    /// Reads the parts of large transactions; nil if there are none.
    private let reader: (any HistoryReading)?
    private let filter: HistoryFilter
    private let notes: ChangeNotes
    private var json = JSONBytes(reservingCapacity: 2 * blockSize)
    private var records = ChangeRecord()
    private var table: TextTable
    /// Whether Core Data writes the store, so that processes have names.
    private let isOfCoreData: Bool
    /// Output is flushed in blocks of about this size.
    private static let blockSize = 1 << 16

    /// - Parameters:
    ///   - filter: Which changes of the transactions are wanted.
    ///   - notes: What else is shown of changes.
    init(
        _ format: HistoryFormat, _ reader: (any HistoryReading)? = nil, isOfCoreData: Bool,
        filter: HistoryFilter, notes: ChangeNotes = ChangeNotes()
    ) {
        self.isOfCoreData = isOfCoreData
        self.notes = notes
        records.hasLabels = !notes.labels.isEmpty
        records.hasValues = notes.values != nil
        self.format = format
        self.reader = reader
        self.filter = filter
        let bundle = isOfCoreData ? ["BUNDLE"] : []
        let origin = ["TOKEN", "TIME", "AUTHOR", "CONTEXT", "PROCESS"] + bundle
        table = TextTable(
            origin + ["OPERATION", "ENTITY", "OBJECT"] + (notes.labels.isEmpty ? [] : ["LABEL"])
                + (notes.values == nil ? [] : ["SOURCE"]) + ["CHANGED"], firm: [0, 1, origin.count],
            spare: (isOfCoreData ? [5] : []) + [3, 4, 2])
    }

    /// Writes what precedes the first transaction.
    func begin(_ output: inout StandardOutput) throws {
        if format == .csv {
            try output.writeLine(records.titles)
        }
    }

    mutating func write(_ transactions: [HistoryTransaction], to output: inout StandardOutput) throws {
        // The column widths are those of a page.
        var rows: [[String]] = []
        let transactions = try notes.add(to: transactions)
        for transaction in transactions {
            if transaction.isLarge {
                try writeParts(of: transaction, to: &output)
            } else if format == .table {
                rows += self.rows(transaction, transaction.changes, isEmpty: transaction.changes.isEmpty)
            } else {
                try write(transaction, transaction.changes, isFirst: true, isLast: true, to: &output)
            }
        }
        // A table without rows still has titles.
        if format == .table { try table.write(rows, to: &output) }
        try flush(to: &output)
    }

    private mutating func writeParts(of transaction: HistoryTransaction, to output: inout StandardOutput) throws
    {
        var isFirst = true
        try reader?.forEachPart(of: transaction, filter: filter) { changes, isLast in
            let changes = try notes.add(to: changes, of: transaction)
            try write(transaction, changes, isFirst: isFirst, isLast: isLast, to: &output)
            isFirst = false
            try flush(to: &output)
        }
    }

    /// Writes some changes of a transaction.
    private mutating func write(
        _ transaction: HistoryTransaction, _ changes: [HistoryChange], isFirst: Bool, isLast: Bool,
        to output: inout StandardOutput
    ) throws {
        switch format {
        case .table: try table.write(rows(transaction, changes, isEmpty: false), to: &output)
        case .json:
            if isFirst, isLast {
                HistoryJSON.write(transaction, to: &json)
            } else {
                HistoryJSON.write(changes, of: transaction, isFirst: isFirst, isLast: isLast, to: &json)
            }
            if isLast { json.endLine() }
        case .csv:
            records.begin(transaction)
            for change in changes { records.write(change, of: transaction.token.store) }
            for entity in transaction.recreated { records.write(recreated: entity) }
            if isFirst, isLast, changes.isEmpty, transaction.recreated.isEmpty { records.writeNoChange() }
        }
        if json.count + records.count >= Self.blockSize { try flush(to: &output) }
    }

    private mutating func flush(to output: inout StandardOutput) throws {
        if json.count > 0 {
            try output.write(json.bytes.array)
            json.removeAll()
        }
        if records.count > 0 {
            try output.write(records.bytes.array)
            records.removeAll()
        }
    }

    // MARK: Rows of the table

    /// - Parameter isEmpty: Whether the transaction has no changes.
    private func rows(_ transaction: HistoryTransaction, _ changes: [HistoryChange], isEmpty: Bool)
        -> [[String]]
    {
        var beginning = isOfCoreData ? transaction.origin : transaction.origin.dropLast()
        beginning[0] = beginning[0].tokenNumber
        // Core Data keeps transactions that changed nothing of the recorded entities.
        if isEmpty, transaction.recreated.isEmpty { return [beginning] }
        return changes.map { change in
            beginning + [
                change.operation.rawValue, change.entity.name, object(change),
            ] + (notes.labels.isEmpty ? [] : [change.shownLabel ?? ""])
                + (notes.values == nil ? [] : [change.shownValues?.sources ?? ""]) + [changed(change)]
        } + transaction.recreated.map { beginning + ["recreated", $0] }
    }

    private func changed(_ change: HistoryChange) -> String {
        let values = change.shownValues?.texts(change.operation) ?? []
        // A property with values is not named twice.
        let names = change.changedProperties.filter { change.shownValues?.names.contains($0) != true }
        return (values + names + Self.unnamed(change)).joined(separator: ", ")
    }

    private static func unnamed(_ change: HistoryChange) -> [String] {
        guard let unnamed = change.unnamedProperties else { return [] }
        return unnamed.isEmpty ? ["unknown"] : unnamed
    }

    /// `id=42`, with values as in JSON; for an object of Core Data `p42`, as in its URL.
    private func object(_ change: HistoryChange) -> String {
        let id = change.objectID
        if change.entity.source == .coreData, case .integer(let number)? = id.values.first {
            return "p\(number)"
        }
        return zip(id.columns, id.values).map { column, value in
            var json = JSONBytes()
            HistoryJSON.write(value, to: &json)
            return "\(column)=\(json.bytes.text)"
        }.joined(separator: " ")
    }
}
