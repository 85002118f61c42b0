/// A managed object model, as a store keeps it: the entities with their properties.
public struct ObjectModel: Sendable, Hashable {
    /// The type of an attribute (`NSAttributeType`).
    public enum AttributeType: Sendable, Hashable {
        /// An integer of so many bits.
        case integer16, integer32, integer64
        /// A number that is none.
        case decimal, double, float
        /// One value, as the name says.
        case string, boolean, date, binary, uuid, uri
        /// What the app makes data of by itself.
        case transformable
        /// One that is not known here, by its number.
        case other(Int64)

        /// The types with their numbers, and as Xcode's model editor calls them.
        private static let known: [(number: Int64, type: AttributeType, name: String)] = [
            (100, .integer16, "Integer 16"), (200, .integer32, "Integer 32"), (300, .integer64, "Integer 64"),
            (400, .decimal, "Decimal"), (500, .double, "Double"), (600, .float, "Float"),
            (700, .string, "String"),
            (800, .boolean, "Boolean"), (900, .date, "Date"), (1000, .binary, "Binary Data"),
            (1100, .uuid, "UUID"),
            (1200, .uri, "URI"), (1800, .transformable, "Transformable"),
        ]

        init(_ number: Int64) {
            self = Self.known.first { $0.number == number }?.type ?? .other(number)
        }

        /// As Xcode's model editor calls it.
        public var name: String {
            if case .other(let number) = self { return "type \(number)" }
            return Self.known.first { $0.type == self }?.name ?? ""
        }
    }

    /// An attribute of an entity.
    public struct Attribute: Sendable, Hashable {
        /// The kind of its values.
        public let type: AttributeType
        /// Not in the store.
        public let isTransient: Bool
        /// Computed by the store from other properties.
        public let isDerived: Bool
        /// Kept in the tombstone of a deleted object.
        public let isPreserved: Bool
    }

    /// A relationship of an entity to another.
    public struct Relationship: Sendable, Hashable {
        /// The entity that it leads to; nil where the model does not say.
        public let destination: String?
        /// Whether an object may be related to several.
        public let isToMany: Bool
        /// Whether the related objects have an order.
        public let isOrdered: Bool
        /// The relationship back; nil where there is none.
        public let inverse: Inverse?
    }

    /// The relationship in the other direction.
    public struct Inverse: Sendable, Hashable {
        /// Its name in the model.
        public let name: String
        /// Whether an object may be related to several.
        public let isToMany: Bool
        /// Whether the related objects have an order.
        public let isOrdered: Bool
    }

    /// An attribute or a relationship, with its name.
    public struct Property: Sendable, Hashable {
        /// What a property is.
        public enum Kind: Sendable, Hashable {
            /// Values of the entity's own.
            case attribute(Attribute)
            /// Other objects.
            case relationship(Relationship)
            /// A fetch by the app, which the store does not know.
            case fetchedProperty
            /// One that is not known here, by its class.
            case other(String)
        }

        /// Its name in the model.
        public let name: String
        /// What it is.
        public let kind: Kind
    }

    /// An entity of the model.
    public struct Entity: Sendable, Hashable {
        /// Its name in the model.
        public let name: String
        /// The entity that it inherits from.
        public let parent: String?
        /// Whether it has no objects of its own.
        public let isAbstract: Bool
        /// The inherited ones included.
        public let properties: [BinaryText: Property]
    }

    /// The entities, by their names.
    public let entities: [BinaryText: Entity]
    /// The entities from which another inherits.
    let parents: Set<BinaryText>

    init(entities: [BinaryText: Entity]) {
        self.entities = entities
        parents = Set(names: entities.values.compactMap(\.parent))
    }

    /// How many properties are looked at to put those of all entities in order; nil where it is more than a limit.
    func work(atMost limit: Int) -> Int? {
        var work = 0
        for name in entities.keys {
            for level in ancestry(of: name.text) ?? [] {
                work += 1 + level.properties.count
                if work > limit { return nil }
            }
        }
        return work
    }

    private static let mostLevels = 100

    /// From an entity to its root; nil where that leads in a circle, or to an entity that is not there.
    func ancestry(of name: String) -> [Entity]? {
        var chain: [Entity] = []
        var next: String? = name
        while let name = next {
            guard let entity = entities[name], chain.count < Self.mostLevels else { return nil }
            chain.append(entity)
            next = entity.parent
        }
        return chain
    }

    /// An entity's properties in the order of their slots: inherited ones first, level by level from the root, and by
    /// name in byte order within a level.
    func orderedProperties(of name: String) -> [Property]? {
        guard let chain = ancestry(of: name), let entity = chain.first else { return nil }
        var known: Set<BinaryText> = []
        var ordered: [Property] = []
        for level in chain.reversed() {
            let new = level.properties.keys.filter { known.insert($0).inserted }.sorted()
            for name in new {
                // What a sub-entity has made of an inherited property counts.
                guard let property = entity.properties[name] else { return nil }
                ordered.append(property)
            }
        }
        return ordered
    }
}
