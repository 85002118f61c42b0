import PersistentHistory

/// The entities in a store's history, to resolve the names in a command.
struct KnownEntities {
    private let shapes: [Entity]
    private let store: StoreID

    init(_ reader: any HistoryReading) throws {
        shapes = try reader.entities()
        store = reader.storeID
    }

    /// The names as the history spells them; ASCII letters match in either case.
    func names(_ texts: [String]) throws -> Set<BinaryText> {
        var names: Set<BinaryText> = []
        for text in texts {
            let found = shapes.map(\.name).filter { SQLText.areSame($0, text) }
            guard !found.isEmpty else { throw unknown(text) }
            names.formUnion(found.asBinary)
        }
        return names
    }

    /// The ids of the object under each set of names that its key columns have had.
    func objectIDs(_ url: ObjectIDURL) throws -> Set<ObjectID> {
        guard url.store.isSame(as: store) else {
            throw HistoryError(
                .tokenForeign, "The object belongs to the store \"\(url.store)\"; this store is \"\(store)\".",
                hint: "Check from which store it was read.")
        }
        let shapes = shapes.filter { $0.name.hasSameBytes(as: url.entityName) }
        guard !shapes.isEmpty else { throw unknown(url.entityName) }
        let objects = Set(shapes.compactMap { url.objectID(in: $0) })
        guard !objects.isEmpty else {
            throw HistoryError(.notAnEntity, "No object of the entity \"\(url.entityName)\" has such a key.")
        }
        return objects
    }

    private func unknown(_ name: String) -> HistoryError {
        HistoryError(
            .notAnEntity, "The history has no entity \"\(name)\".",
            hint:
                "It has \(Set<BinaryText>(names: shapes.map(\.name)).sorted().quoted)."
        )
    }
}
