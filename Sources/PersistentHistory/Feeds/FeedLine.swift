/// The lines of a feed's stream, each a JSON object.
enum FeedLine {
    /// The first line: where the feed continues.
    static func begins(after token: HistoryToken, to json: inout JSONBytes) {
        json.object { json in
            json.name("begins")
            json.object { $0.member("after", token) }
        }
        json.endLine()
    }

    /// History was lost: what was made of it is to be created again from the store; what follows comes after `after`.
    static func expired(_ expiry: Expiry, to json: inout JSONBytes) {
        json.object { json in
            json.name("expired")
            json.object { expiry.writeMembers(to: &$0) }
        }
        json.endLine()
    }

    static func transaction(
        _ transaction: HistoryTransaction, _ objects: some Collection<ObjectIDNotification.Object>,
        part: CallPart? = nil, values: CallValues? = nil, to json: inout JSONBytes
    ) {
        json.object { json in
            HistoryJSON.writeHeaderMembers(of: transaction, to: &json)
            var writer = ValueWriter(values)
            writer?.writePosition(to: &json)
            let store = transaction.token.store
            for effect in ObjectIDNotification.Effect.allCases {
                json.name(name(of: effect))
                json.array { json in
                    for object in objects where object.effect == effect {
                        write(object, of: store, &writer, to: &json)
                    }
                }
            }
            part?.write(to: &json)
        }
        json.endLine()
    }

    private static func name(of effect: ObjectIDNotification.Effect) -> String {
        switch effect {
        case .inserted: "insertedObjectIDs"
        case .updated: "updatedObjectIDs"
        case .deleted: "deletedObjectIDs"
        }
    }

    private static func write(
        _ object: ObjectIDNotification.Object, of store: StoreID, _ values: inout ValueWriter?,
        to json: inout JSONBytes
    ) {
        json.object { json in
            json.member("entityName", object.entity.name)
            json.name("objectID")
            HistoryJSON.write(object.objectID, to: &json)
            HistoryJSON.writeURL(of: object.objectID, in: object.entity, store, to: &json)
            if object.effect != .deleted { values?.write(object.objectID, of: object.entity, to: &json) }
        }
    }
}

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
        var indices: [Key: Int] = [:]
        var touched: [(change: HistoryChange, first: ChangeOperation, last: ChangeOperation)] = []
        for change in transaction.changes where entities?.contains(change.entity.name) ?? true {
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
