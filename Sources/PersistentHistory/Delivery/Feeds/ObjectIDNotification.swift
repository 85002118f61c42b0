/// The net effect of a transaction on each object: the kit's `objectIDNotification`.
///
/// A transaction may change a row many times. A program that refreshes its display needs to know once
/// whether the row was created, changed or deleted. A row that was created and deleted within the
/// transaction is left out.
package struct ObjectIDNotification: Sendable {
    package enum Effect: Sendable, CaseIterable {
        case inserted, updated, deleted

        /// - Parameters:
        ///   - isNew: Whether the row did not exist before.
        ///   - isGone: Whether it does not exist afterwards.
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

    /// - Parameter entities: The wanted entities; nil for all.
    package init(_ transaction: HistoryTransaction, entities: Set<BinaryText>? = nil) {
        self.init(transaction, ChangeFilter(entities: entities), nil)
    }

    /// - Parameter rows: The rows that were read with the changes.
    init(_ transaction: HistoryTransaction, _ filter: ChangeFilter, _ rows: RowValues?) {
        var indices: [Key: Int] = [:]
        var touched: [(change: HistoryChange, first: ChangeOperation, last: ChangeOperation)] = []
        for change in transaction.changes where filter.verdict(on: change, rows) != .unwanted {
            let key = Key(entity: BinaryText(change.entity.name), objectID: change.objectID)
            if let index = indices[key] {
                // An update does not show what was before: a foreign key's action on a row that refers to
                // itself is recorded before the new key of the row.
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
