import PersistentHistory

/// Judges what the history says of one SQL transaction by what it did to the tables.
///
/// It knows nothing of how changes are recorded: only the rows before and after, who wrote, and
/// the contract.
struct Oracle {
    struct Author: Equatable {
        let name: BinaryText
        let context: BinaryText?
    }

    var tables: [BinaryText: TableShape]
    /// The preserved columns of each table, in table order.
    var preserved: [BinaryText: [BinaryText]]
    /// Columns that were dropped and had been preserved: one that comes back under its name is preserved again.
    var dropped: [BinaryText: Set<BinaryText>] = [:]
    /// Tables of which changes may go unrecorded. An update that names no column goes before theirs.
    var mayLack: Set<BinaryText> = []

    /// Takes from what `track` says which these are.
    mutating func note(_ outcome: Tracking.Outcome) {
        mayLack = Set(outcome.doubts.filter { $0.value.contains { $0.contains("RAISE(FAIL)") } }.keys)
    }

    /// What the history calls by other names as yet.
    var names = KnownNames()
    /// Whether foreign keys act. The action on a row that refers to itself comes before the change of
    /// its key is recorded.
    let cascades: Bool
    /// Whether the application has triggers.
    var hasTriggers = false

    /// What is wrong; nil where nothing is.
    ///
    /// - Parameter beginsUndeclared: Whether the extension was loaded amid the transaction: what came before is another.
    /// - Parameter exact: Whether each row was written at most once, and by nothing but the
    ///   statement itself, so that changes and differences must be the same.
    func judge(
        _ transactions: [HistoryTransaction], by author: Author?, before: Snapshot, after: Snapshot,
        exact: Bool,
        beginsUndeclared: Bool = false
    ) -> String? {
        let declared = beginsUndeclared ? Array(transactions.drop { $0.author == nil }) : transactions
        if let problem = judgeAuthors(declared, author, changed: before != after) { return problem }
        let changes = transactions.flatMap(\.changes)
        var histories: [ObjectKey: [HistoryChange]] = [:]
        for change in changes {
            guard tables[names.table(BinaryText(change.entity.name))] != nil else {
                return "unknown entity \(change.entity.name)"
            }
            histories[key(change), default: []].append(change)
        }
        for (key, changes) in histories {
            if let problem = judge(changes, before.rows[key], after.rows[key], exact: exact) {
                return "\(key): \(problem)"
            }
        }
        for key in Set(before.rows.keys).union(after.rows.keys) where histories[key] == nil {
            let (old, new) = (before.rows[key], after.rows[key])
            if !same(old, new, of: key) { return "\(key): not recorded: \(text(old)) became \(text(new))" }
        }
        return FeedJudge.judge(transactions, self, before: before, after: after)
    }

    private func judgeAuthors(_ transactions: [HistoryTransaction], _ author: Author?, changed: Bool) -> String?
    {
        for transaction in transactions {
            let recorded = transaction.author.map {
                Author(name: BinaryText($0), context: transaction.context.map { BinaryText($0) })
            }
            if recorded != author {
                return "the author is \(describe(recorded)), and should be \(describe(author))"
            }
        }
        if author != nil, transactions.count > 1 {
            return "one transaction was split into \(transactions.count)"
        }
        return nil
    }

    /// The changes of one object must be a sequence that can have led from one row to the other.
    private func judge(_ changes: [HistoryChange], _ old: [Cell]?, _ new: [Cell]?, exact: Bool) -> String? {
        // Of a row that refers to itself, what a foreign key makes of its new key is recorded before that key. Where it
        // is gone in the end, that may be a change of what is not there.
        let isPassing = cascades && new == nil && changes.last?.operation == .delete
        var exists = old != nil
        var touched: Set<BinaryText> = []
        var isOldRow = true
        for (place, change) in changes.enumerated() {
            switch change.operation {
            case .insert:
                // Put there again amid the foreign key's action on its delete, which is recorded after that.
                let next = changes[(place + 1)...].first { $0.operation != .update }?.operation
                if exists, cascades, hasTriggers, next == .delete { continue }
                if exists { return "inserted, but it was there (\(sequence(changes)))" }
                exists = true
                isOldRow = false
            case .update:
                if !exists, isPassing || cascades && changes.contains(where: { $0.operation == .insert }) {
                    continue
                }
                if !exists { return "updated, but it was not there (\(sequence(changes)))" }
                let properties = names.columns(
                    change.changedProperties.asBinary, of: BinaryText(change.entity.name))
                let mayBeEmpty =
                    names.isAltered(BinaryText(change.entity.name))
                    || mayLack.contains(names.table(BinaryText(change.entity.name)))
                if properties.isEmpty, !mayBeEmpty { return "an update of no column" }
                touched.formUnion(properties)
            case .delete:
                if !exists, isPassing { continue }
                if !exists { return "deleted, but it was not there (\(sequence(changes)))" }
                exists = false
                if let problem = judge(change, isOldRow ? old : nil, touched) { return problem }
                isOldRow = false
            }
        }
        if exists != (new != nil) {
            return new == nil
                ? "recorded as there (\(sequence(changes))), but gone" : "recorded as gone, but there"
        }
        guard isOldRow, let old, let new else { return nil }
        let shape = tables[names.table(BinaryText(changes[0].entity.name))]
        let different = (shape?.columns ?? []).enumerated().filter { old[$0.offset] != new[$0.offset] }.map(
            \.element)
        if !touched.isSuperset(of: different) {
            return "changed were \(different), recorded \(touched.sorted())"
        }
        if exact,
            changes.map({ names.columns($0.changedProperties.asBinary, of: BinaryText($0.entity.name)) }) != [
                Set(different)
            ]
        {
            return "changed were \(different), recorded \(changes.map(\.changedProperties))"
        }
        return nil
    }

    /// A tombstone holds what the row was, where that can be known.
    private func judge(_ delete: HistoryChange, _ row: [Cell]?, _ touched: Set<BinaryText>) -> String? {
        let preserved = preserved[names.table(BinaryText(delete.entity.name))] ?? []
        guard !preserved.isEmpty else {
            return delete.tombstone == nil ? nil : "a tombstone, but nothing is preserved"
        }
        guard let tombstone = delete.tombstone else { return "no tombstone" }
        let columns = tombstone.values.map {
            names.column(BinaryText($0.column.name), of: BinaryText(delete.entity.name))
        }
        if columns != preserved { return "the tombstone preserves other columns: \(columns), not \(preserved)" }
        guard let row, let shape = tables[names.table(BinaryText(delete.entity.name))] else { return nil }
        for (column, value) in zip(columns, tombstone.values.map(\.value)) where !touched.contains(column) {
            guard let position = shape.columns.firstIndex(of: column) else { return "no column \(column)" }
            if row[position] != Cell(value) {
                return "the tombstone says \(column) was \(Cell(value)), it was \(row[position])"
            }
        }
        return nil
    }

    /// The objects that there are when a history has been followed from its beginning, or from where
    /// there were some.
    func objects(_ known: Set<ObjectKey> = [], after transactions: [HistoryTransaction]) -> Set<ObjectKey> {
        var objects = known
        for change in transactions.lazy.flatMap(\.changes) {
            if change.operation == .delete { objects.remove(key(change)) } else { objects.insert(key(change)) }
        }
        return objects
    }

    /// Transactions without what they did to a table.
    func leaveOut(_ table: BinaryText, of transactions: [HistoryTransaction]) -> [HistoryTransaction] {
        transactions.compactMap { transaction in
            let rest = transaction.changes.filter { names.table(BinaryText($0.entity.name)) != table }
            if rest.isEmpty { return nil }
            return HistoryTransaction(
                token: transaction.token, author: transaction.author, context: transaction.context,
                processID: transaction.processID, timestamp: transaction.timestamp, changes: rest)
        }
    }

    func key(_ change: HistoryChange) -> ObjectKey { key(change.entity, change.objectID) }

    func key(_ entity: Entity, _ object: ObjectID) -> ObjectKey {
        ObjectKey(
            table: names.table(BinaryText(entity.name)), isRowid: object.isRowID,
            values: object.values.map { Cell($0) })
    }

    /// A rowid beside a key may change, as in VACUUM: it is no column.
    func same(_ old: [Cell]?, _ new: [Cell]?, of key: ObjectKey) -> Bool {
        let count = tables[key.table]?.columns.count ?? 0
        return old.map { $0.prefix(count) } == new.map { $0.prefix(count) }
    }

    private func sequence(_ changes: [HistoryChange]) -> String {
        changes.map(\.operation.rawValue).joined(separator: ", ")
    }

    private func describe(_ author: Author?) -> String {
        author.map { "\($0.name)\($0.context.map { "/\($0)" } ?? "")" } ?? "nobody"
    }

    func text(_ row: [Cell]?) -> String { row.map { "\($0)" } ?? "nothing" }
}
