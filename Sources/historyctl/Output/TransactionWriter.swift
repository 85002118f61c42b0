import PersistentHistory

/// Writes transactions in the form that was asked for.
struct TransactionWriter {
    private enum Form {
        case json
        case table(TextTable)
    }

    private var form: Form

    init(_ format: OutputFormat) {
        form =
            switch format {
            case .json: .json
            case .table:
                .table(
                    TextTable([
                        "TOKEN", "TIME", "AUTHOR", "CONTEXT", "PROCESS", "OPERATION", "ENTITY", "OBJECT",
                        "CHANGED",
                    ]))
            }
    }

    mutating func write(_ transactions: [HistoryTransaction], to output: inout StandardOutput) throws {
        switch form {
        case .json:
            var json = JSONBytes(reservingCapacity: 4096)
            for transaction in transactions {
                json.removeAll()
                HistoryJSON.write(transaction, to: &json)
                json.endLine()
                try output.write(json.bytes.array)
            }
        case .table(var table):
            try table.write(
                transactions.flatMap { transaction in
                    transaction.changes.map { Self.row($0, transaction) }
                        + transaction.recreated.map { Self.row(recreated: $0, transaction) }
                },
                to: &output)
            form = .table(table)
        }
    }

    private static func row(_ change: HistoryChange, _ transaction: HistoryTransaction) -> [String] {
        [
            transaction.token.description, transaction.timestamp.description, transaction.author ?? "",
            transaction.context ?? "", transaction.processID.map { String($0) } ?? "",
            change.operation.rawValue,
            change.entity.name, object(change.objectID), change.changedProperties.joined(separator: ", "),
        ]
    }

    private static func row(recreated entity: String, _ transaction: HistoryTransaction) -> [String] {
        [
            transaction.token.description, transaction.timestamp.description, "", "", "", "recreated", entity,
            "", "",
        ]
    }

    /// `id=42`, the values as JSON has them.
    private static func object(_ id: ObjectID) -> String {
        zip(id.columns, id.values).map { column, value in
            var json = JSONBytes()
            HistoryJSON.write(value, to: &json)
            return "\(column)=\(json.bytes.text)"
        }.joined(separator: " ")
    }
}
