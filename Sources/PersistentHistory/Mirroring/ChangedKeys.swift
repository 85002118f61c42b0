/// The objects that a range of history rows changed, each once, by entity, in a form that needs little memory for a
/// giant transaction.
struct ChangedKeys {
    struct Entity {
        /// The keys of objects with an integer key.
        fileprivate(set) var integers: [Int64] = []
        /// The keys of all others; see `ObjectID.keyText`.
        fileprivate(set) var texts: Set<BinaryText> = []

        /// In ascending order, each once.
        var distinctIntegers: [Int64] {
            var distinct: [Int64] = []
            distinct.reserveCapacity(integers.count)
            for integer in integers.sorted() where integer != distinct.last { distinct.append(integer) }
            return distinct
        }
    }

    /// By the entity's name.
    private(set) var entities: [BinaryText: Entity] = [:]

    mutating func insert(_ object: ObjectID, of entity: PersistentHistory.Entity) {
        if let integer = object.integer(in: entity) {
            entities[entity.name, default: Entity()].integers.append(integer)
        } else {
            entities[entity.name, default: Entity()].texts.insert(object.keyText)
        }
    }
}
