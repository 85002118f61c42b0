/// The parts of a change's JSON that are the same for all changes of an entity, written once.
struct EntityJSON: Sendable {
    /// The key's columns, or `rowid`.
    let keyColumns: [String]
    /// `"entityName":"item","operation":"insert","objectID":`, by operation.
    private let beginnings: [[UInt8]]
    /// `{"id":`, where the key is one column.
    let keyBeginning: [UInt8]
    /// `/item/`, as it is in an object id's URL.
    let urlName: [UInt8]
    /// `x-history://`
    let urlScheme: StaticString

    init(name: String, key: Entity.Key, source: Entity.Source) {
        urlScheme =
            switch source {
            case .recorded: "x-history://"
            case .coreData: "x-coredata://"
            }
        keyColumns = key == .rowid ? ObjectID.rowidColumns : key.columns
        beginnings = ChangeOperation.allCases.map { operation in
            var json = JSONBytes()
            json.name("entityName")
            json.string(name)
            json.name("operation")
            json.string(operation.rawValue)
            json.name("objectID")
            return json.bytes.array
        }
        var json = JSONBytes()
        json.name(keyColumns.first ?? "")
        keyBeginning = [UInt8(ascii: "{")] + json.bytes.array
        urlName = [UInt8(ascii: "/")] + ObjectURL.percentEncoded(name) + [UInt8(ascii: "/")]
    }

    func beginning(_ operation: ChangeOperation) -> [UInt8] {
        switch operation {
        case .insert: beginnings[0]
        case .update: beginnings[1]
        case .delete: beginnings[2]
        }
    }
}

extension ObjectID {
    static let rowidColumns = ["rowid"]
}
