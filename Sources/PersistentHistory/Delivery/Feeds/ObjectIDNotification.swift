/// What a transaction did to each object in the end: the kit's `objectIDNotification`.
///
/// A transaction may touch a row many times; a program that refreshes what it shows needs to know once whether
/// the row came, changed or went. A row that came and went within the transaction is left out.
package struct ObjectIDNotification: Sendable {
    package enum Effect: Sendable, CaseIterable {
        case inserted, updated, deleted

        /// - Parameters:
        ///   - isNew: Whether the row was not there before.
        ///   - isGone: Whether it is not there afterwards.
        init?(isNew: Bool, isGone: Bool) {
            switch (isNew, isGone) {
            case (true, true): return nil
            case (true, false): self = .inserted
            case (false, true): self = .deleted
            case (false, false): self = .updated
            }
        }
    }

    package struct Object: Sendable, Hashable {
        package let entity: Entity
        package let objectID: ObjectID
        package let effect: Effect
    }

    /// In the order in which the transaction first touched them.
    package let objects: [Object]

    /// - Parameter entities: Those that are wanted; nil for all.
    package init(_ transaction: HistoryTransaction, entities: Set<BinaryText>? = nil) {
        self.init(transaction, ChangeFilter(entities: entities), nil)
    }

    /// - Parameter rows: What was read with the changes.
    init(_ transaction: HistoryTransaction, _ filter: ChangeFilter, _ rows: RowValues?) {
        var indices: [Key: Int] = [:]
        var touched: [(change: HistoryChange, first: ChangeOperation, last: ChangeOperation)] = []
        for change in transaction.changes where filter.verdict(on: change, rows) != .unwanted {
            let key = Key(entity: BinaryText(change.entity.name), objectID: change.objectID)
            if let index = indices[key] {
                // An update says nothing of what was before: a foreign key's action on a row that refers to itself is
                // recorded before the new key of the row.
                if touched[index].first == .update { touched[index].first = change.operation }
                touched[index].last = change.operation
            } else {
                indices[key] = touched.count
                touched.append((change, change.operation, change.operation))
            }
        }
        objects = touched.compactMap { change, first, last in
            Effect(isNew: first == .insert, isGone: last == .delete).map {
                Object(entity: change.entity, objectID: change.objectID, effect: $0)
            }
        }
    }

    private struct Key: Hashable {
        let entity: BinaryText
        let objectID: ObjectID
    }
}
