/// The lines of a feed's stream, each a JSON object.
enum FeedLineWriter {
    /// The first line: where the feed continues.
    static func begins(after token: HistoryToken, to json: inout JSONBytes) {
        json.object { json in
            json.name("begins")
            json.object { $0.member("after", token) }
        }
        json.endLine()
    }

    /// History was lost: what the program has made of it must be rebuilt from the store. What follows
    /// comes after `after`.
    static func expired(_ expiry: Expiry, to json: inout JSONBytes) {
        json.object { json in
            json.name("expired")
            json.object { expiry.writeMembers(to: &$0) }
        }
        json.endLine()
    }

    static func transaction(
        _ transaction: HistoryTransaction, _ objects: some Collection<ObjectIDNotification.Object>,
        part: CallPart? = nil, values: CallValues? = nil, largeIntegers: LargeIntegers = .number,
        to json: inout JSONBytes
    ) {
        json.object(largeIntegers) { json in
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
