import HistoryConfiguration
import PersistentHistory

/// What is shown of changes besides the history itself: labels of their objects, and values.
struct ChangeNotes {
    var labels: [ObjectLabels] = []
    var values: ObjectHistory?

    func add(to transactions: [HistoryTransaction]) throws -> [HistoryTransaction] {
        let transactions = try labels.reduce(transactions) { try $1.label($0) }
        return try values?.add(to: transactions) ?? transactions
    }

    /// The same for changes of a large transaction.
    func add(to changes: [HistoryChange], of transaction: HistoryTransaction) throws -> [HistoryChange] {
        let changes = try labels.reduce(changes) { try $1.label($0) }
        return try values?.add(to: changes, of: transaction) ?? changes
    }
}

extension ChangeValues {
    /// The properties with values.
    var names: Set<String> { Set((before?.texts ?? [:]).keys).union((after?.texts ?? [:]).keys) }

    /// The sources of both states.
    var sources: String {
        let names = [before?.source.rawValue, after?.source.rawValue].compactMap(\.self)
        return names.count == 2 && names[0] == names[1] ? names[0] : names.joined(separator: ", ")
    }

    /// `text: "a" → "b"` for each property, with a question mark for what is not known.
    func texts(_ operation: ChangeOperation) -> [String] {
        let (old, new) = (before?.texts ?? [:], after?.texts ?? [:])
        return names.sorted().map { name in
            switch operation {
            case .insert: "\(name): \(new[name] ?? "?")"
            case .update: "\(name): \(old[name] ?? "?") → \(new[name] ?? "?")"
            case .delete: "\(name): \(old[name] ?? "?")"
            }
        }
    }
}

extension ChangeValues.State {
    /// Longer values are cut.
    private static let longest = 40

    fileprivate var texts: [String: String] {
        var texts: [String: String] = [:]
        for (column, value) in values {
            var json = JSONBytes()
            HistoryJSON.writeTyped(value, column, to: &json)
            texts[column.name] = json.bytes.text.cut(toWidth: Self.longest)
        }
        for name in omitted { texts[name] = "…" }
        return texts
    }
}
