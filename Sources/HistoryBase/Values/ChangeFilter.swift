/// Which changes a hook or a feed receives: by entity, by operation, by the changed columns of an update,
/// and by the row. (`HistoryFilter` is for readers of the history.)
package struct ChangeFilter: Sendable, Hashable {
    /// Nil means every entity.
    package let entities: Set<BinaryText>?
    package let operations: Set<ChangeOperation>
    /// An update matches only if it changed one of these columns. Inserts and deletes always match. Nil
    /// means any column.
    package let properties: Set<BinaryText>?
    /// Only changes of rows that fulfill this condition match.
    package let condition: RowCondition?

    package init(
        entities: Set<BinaryText>? = nil, operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
        properties: Set<BinaryText>? = nil, condition: RowCondition? = nil
    ) {
        self.entities = entities
        self.operations = operations
        self.properties = properties
        self.condition = condition
    }

    /// - Parameters:
    ///   - entity: The entity that the columns belong to; nil for every entity, which allows no columns.
    ///   - condition: An SQL expression over the columns of the row.
    package init(
        entity: String?, operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
        properties: [String]?, condition: String?
    ) {
        self.init(
            entities: entity.map { [BinaryText($0)] }, operations: operations,
            properties: entity == nil ? nil : properties.map { Set(names: $0) },
            condition: entity.flatMap { entity in condition.map { RowCondition(entity: entity, $0) } })
    }

    /// Whether single changes of an entity and operation may be excluded.
    package var looksAtChanges: Bool { properties != nil || condition != nil }

    func concerns(_ entity: String) -> Bool { entities?.contains(entity) ?? true }

    /// Whether a transaction may have matching changes, judging by its entities.
    package func mayConcern(_ transaction: HistoryTransaction) -> Bool {
        guard let entities else { return true }
        return transaction.concerns(entities) || !entities.isDisjoint(with: transaction.recreated.asBinary)
    }

    /// Whether a change matches.
    ///
    /// - Parameter rows: The rows that were read with the changes.
    package func verdict(on change: HistoryChange, _ rows: RowValues?) -> RowVerdict {
        guard mayConcern(change) else { return .unwanted }
        guard let condition else { return .wanted }
        return rows?.verdict(on: change, condition)
            ?? .failed("The rows of \"\(change.entity.name)\" were not read.")
    }

    /// Whether a change may match, judging by the history alone.
    package func mayConcern(_ change: HistoryChange) -> Bool {
        guard concerns(change.entity.name), operations.contains(change.operation) else { return false }
        // In case of doubt, the change is delivered.
        guard let properties, change.operation == .update, change.unnamedProperties == nil else { return true }
        return change.changedProperties.contains { properties.contains($0) }
    }

    /// The matching changes, in order.
    ///
    /// - Returns: Also those that could not be decided, with the reason for the first.
    package func select(_ changes: ArraySlice<HistoryChange>, _ rows: RowValues?) -> (
        changes: [HistoryChange], failure: RowVerdict?
    ) {
        var failure: RowVerdict?
        let selected = changes.filter { change in
            switch verdict(on: change, rows) {
            case .wanted: return true
            case .unwanted: return false
            case let verdict:
                failure = failure ?? verdict
                return true
            }
        }
        return (selected, failure)
    }
}

/// An SQL expression over the columns of an entity's row.
package struct RowCondition: Sendable, Hashable {
    package let entity: BinaryText
    package let expression: BinaryText

    package init(entity: String, _ expression: String) {
        self.entity = BinaryText(entity)
        self.expression = BinaryText(expression)
    }
}

/// Whether a row's change is wanted.
package enum RowVerdict: Sendable, Hashable {
    case wanted
    case unwanted
    /// The condition could not be evaluated for this row: it took too long, or a value is too large.
    case failed(String)
    /// The condition does not fit the present table.
    case unfit(String)
}

/// Whether a condition is true of the rows of changed objects, as of one snapshot of the store.
package struct RowVerdicts: Sendable {
    /// A delete, judged by the values in its tombstone.
    fileprivate struct Deletion: Hashable {
        let key: BinaryText
        let tombstone: Tombstone?
    }

    private var integers: [Int64: RowVerdict] = [:]
    private var texts: [BinaryText: RowVerdict] = [:]
    private var deletions: [Deletion: RowVerdict] = [:]

    package init() {}

    package subscript(change: HistoryChange) -> RowVerdict? {
        get {
            if change.operation == .delete { return deletions[Deletion(change)] }
            if let integer = change.objectID.integer(in: change.entity) { return integers[integer] }
            return texts[BinaryText(change.objectID.keyText)]
        }
        set {
            if change.operation == .delete {
                deletions[Deletion(change)] = newValue
            } else if let integer = change.objectID.integer(in: change.entity) {
                integers[integer] = newValue
            } else {
                texts[BinaryText(change.objectID.keyText)] = newValue
            }
        }
    }
}

extension RowVerdicts.Deletion {
    fileprivate init(_ change: HistoryChange) {
        self.init(key: BinaryText(change.objectID.keyText), tombstone: change.tombstone)
    }
}
