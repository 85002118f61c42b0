import HistoryConfiguration
import PersistentHistory

/// Writes what can be read of a damaged history, and marks the gaps.
struct SalvageWriter: ~Copyable {
    private let format: HistoryFormat
    private var transactions: TransactionWriter
    private var json = JSONBytes()
    private var records = ChangeRecord()

    init(_ format: HistoryFormat, _ transactions: consuming TransactionWriter) {
        self.format = format
        self.transactions = transactions
    }

    func begin(_ output: inout StandardOutput) throws { try transactions.begin(&output) }

    mutating func write(_ finding: CoreDataSalvage.Finding, to output: inout StandardOutput) throws {
        switch finding {
        case .transaction(let transaction): try transactions.write([transaction], to: &output)
        case .missing(let numbers): try write(missing: numbers, to: &output)
        case .changes(let changes, let token): try write(changes, of: token, to: &output)
        }
        if json.count > 0 { try output.write(json.bytes.array) }
        if records.count > 0 { try output.write(records.bytes.array) }
        json.removeAll()
        records.removeAll()
    }

    private mutating func write(missing numbers: ClosedRange<Int64>, to output: inout StandardOutput) throws {
        switch format {
        case .json:
            Self.write(missing: numbers, to: &json)
            json.endLine()
        case .csv:
            records.write(token: "", "missing", "\(numbers.lowerBound) to \(numbers.upperBound)")
        case .table:
            try output.writeLine(
                "--- transactions \(numbers.lowerBound) to \(numbers.upperBound) are missing ---")
        }
    }

    /// Writes changes whose transaction, and therefore author and time, are not known.
    private mutating func write(
        _ changes: [HistoryChange], of token: HistoryToken, to output: inout StandardOutput
    ) throws {
        switch format {
        case .json:
            Self.write(changes, of: token, to: &json)
            json.endLine()
        case .csv:
            records.begin(token: token.description)
            for change in changes { records.write(change, of: token.store, isDated: false) }
        case .table:
            let object = { (change: HistoryChange) in
                HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: token.store).printable
            }
            for change in changes {
                try output.writeLine(
                    "\(token)  (transaction missing)  \(change.operation.rawValue)  \(object(change))")
            }
        }
    }

    /// Transactions that are missing.
    static func write(missing numbers: ClosedRange<Int64>, to json: inout JSONBytes) {
        json.object { json in
            json.name("missing")
            json.object { json in
                json.member("first", numbers.lowerBound)
                json.member("last", numbers.upperBound)
            }
        }
    }

    /// Writes changes without their transaction.
    static func write(_ changes: [HistoryChange], of token: HistoryToken, to json: inout JSONBytes) {
        json.object { json in
            json.member("token", token.description)
            json.member("transactionMissing", true)
            json.name("changes")
            json.array { json in for change in changes { write(change, of: token.store, to: &json) } }
        }
    }

    private static func write(_ change: HistoryChange, of store: StoreID, to json: inout JSONBytes) {
        json.object { json in
            json.member("entityName", change.entity.name)
            json.member("operation", change.operation.rawValue)
            json.name("objectID")
            HistoryJSON.write(change.objectID, to: &json)
            json.member(
                "objectIDURL", HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: store))
            if change.operation == .update {
                json.name("changedProperties")
                json.array { json in for name in change.changedProperties { json.string(name) } }
                if change.unnamedProperties != nil { json.member("changedPropertiesUnknown", true) }
            }
            guard let tombstone = change.tombstone else { return }
            json.name("tombstone")
            HistoryJSON.write(tombstone, isTyped: true, isDated: false, to: &json)
        }
    }

    /// What was found and what is damaged, for standard error.
    static func lines(_ summary: CoreDataSalvage.Summary) -> [String] {
        var lines = ["\(summary.transactions) transactions with \(summary.changes) changes were read"]
        if summary.missing > 0 { lines.append("\(summary.missing) transactions are missing") }
        if summary.orphans > 0 { lines.append("\(summary.orphans) changes have no transaction") }
        if summary.unreadable > 0 { lines.append("\(summary.unreadable) rows have values that cannot be") }
        return lines + summary.damage
    }
}
