/// What a transaction did to each object in the end: the kit's `objectIDNotification`.
///
/// A transaction may touch a row many times; a program that refreshes what it shows needs to know once whether
/// the row came, changed or went. A row that came and went within the transaction is left out.
package struct ObjectIDNotification: Sendable {
    package enum Effect: Sendable, CaseIterable {
        case inserted, updated, deleted

        init?(first: ChangeOperation, last: ChangeOperation) {
            switch (first, last) {
            case (.insert, .delete): return nil
            case (.insert, _): self = .inserted
            case (_, .delete): self = .deleted
            default: self = .updated
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
        var indices: [Key: Int] = [:]
        var touched: [(change: HistoryChange, last: ChangeOperation)] = []
        for change in transaction.changes where entities?.contains(change.entity.name) ?? true {
            let key = Key(entity: BinaryText(change.entity.name), objectID: change.objectID)
            if let index = indices[key] {
                touched[index].last = change.operation
            } else {
                indices[key] = touched.count
                touched.append((change, change.operation))
            }
        }
        objects = touched.compactMap { change, last in
            Effect(first: change.operation, last: last).map {
                Object(entity: change.entity, objectID: change.objectID, effect: $0)
            }
        }
    }

    private struct Key: Hashable {
        let entity: BinaryText
        let objectID: ObjectID
    }
}
