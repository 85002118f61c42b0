import PersistentHistory

/// Writes transactions in the form that was asked for.
struct TransactionWriter {
    private enum Form {
        case json
        case csv
        case table(TextTable)
    }

    private var form: Form
    private let isOfCoreData: Bool
    /// About as much is written at once.
    private static let blockSize = 1 << 16

    /// - Parameter isOfCoreData: Whether the store is one that Core Data writes, whose processes have names.
    init(_ format: HistoryFormat, isOfCoreData: Bool) {
        self.isOfCoreData = isOfCoreData
        let bundle = isOfCoreData ? ["BUNDLE"] : []
        form =
            switch format {
            case .json: .json
            case .csv: .csv
            case .table:
                .table(
                    TextTable(
                        ["TOKEN", "TIME", "AUTHOR", "CONTEXT", "PROCESS"] + bundle + [
                            "OPERATION", "ENTITY", "OBJECT", "CHANGED",
                        ]))
            }
    }

    /// Writes what stands above the first transaction.
    func begin(_ output: inout StandardOutput) throws {
        if case .csv = form { try output.writeLine(ChangeRecord.titles) }
    }

    mutating func write(_ transactions: [HistoryTransaction], to output: inout StandardOutput) throws {
        switch form {
        case .json:
            var json = JSONBytes(reservingCapacity: 2 * Self.blockSize)
            for transaction in transactions {
                HistoryJSON.write(transaction, to: &json)
                json.endLine()
                guard json.count >= Self.blockSize else { continue }
                try output.write(json.bytes.array)
                json.removeAll()
            }
            try output.write(json.bytes.array)
        case .csv:
            for transaction in transactions {
                for change in transaction.changes {
                    try output.writeLine(ChangeRecord.line(change, transaction))
                }
                for entity in transaction.recreated {
                    try output.writeLine(ChangeRecord.line(recreated: entity, transaction))
                }
            }
        case .table(var table):
            try table.write(transactions.flatMap { rows($0) }, to: &output)
            form = .table(table)
        }
    }

    // MARK: Rows of the table

    private func rows(_ transaction: HistoryTransaction) -> [[String]] {
        let beginning = isOfCoreData ? transaction.origin : transaction.origin.dropLast()
        // Core Data keeps transactions that changed nothing of what it records.
        if transaction.changes.isEmpty, transaction.recreated.isEmpty { return [beginning + ["", "", "", ""]] }
        return transaction.changes.map { change in
            beginning + [
                change.operation.rawValue, change.entity.name, object(change),
                (change.changedProperties + Self.unnamed(change)).joined(separator: ", "),
            ]
        } + transaction.recreated.map { beginning + ["recreated", $0, "", ""] }
    }

    private static func unnamed(_ change: HistoryChange) -> [String] {
        guard let unnamed = change.unnamedProperties else { return [] }
        return unnamed.isEmpty ? ["unknown"] : unnamed
    }

    /// `id=42`, the values as JSON has them; of an object of Core Data `p42`, as in its URL.
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
