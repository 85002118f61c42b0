/// A managed object model as stored in a store: the entities with their properties.
public struct ObjectModel: Sendable, Hashable {
    /// The type of an attribute (`NSAttributeType`).
    public enum AttributeType: Sendable, Hashable {
        /// An integer with this number of bits.
        case integer16, integer32, integer64
        /// A number that is not an integer.
        case decimal, double, float
        /// A single value of the type in the name.
        case string, boolean, date, binary, uuid, uri
        /// A value that the app itself converts to data.
        case transformable
        /// An unknown type, by its number.
        case other(Int64)

        /// The types with their numbers, and with their names in Xcode's model editor.
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

        /// The name in Xcode's model editor.
        public var name: String {
            if case .other(let number) = self { return "type \(number)" }
            return Self.known.first { $0.type == self }?.name ?? ""
        }
    }

    /// An attribute of an entity.
    public struct Attribute: Sendable, Hashable {
        /// The kind of its values.
        public let type: AttributeType
        /// Whether it is not in the store.
        public let isTransient: Bool
        /// Whether the store computes it from other properties.
        public let isDerived: Bool
        /// Whether the tombstone of a deleted object keeps it.
        public let isPreserved: Bool
    }

    /// A relationship of an entity to another.
    public struct Relationship: Sendable, Hashable {
        /// The destination entity; nil if the model does not say.
        public let destination: String?
        /// Whether an object may be related to several.
        public let isToMany: Bool
        /// Whether the related objects have an order.
        public let isOrdered: Bool
        /// The inverse relationship; nil if there is none.
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
        /// The kind of a property.
        public enum Kind: Sendable, Hashable {
            /// Values of the entity's own.
            case attribute(Attribute)
            /// Other objects.
            case relationship(Relationship)
            /// A fetch by the app, which is not in the store.
            case fetchedProperty
            /// An unknown kind, by its class.
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
        /// The properties, including inherited ones.
        public let properties: [BinaryText: Property]
    }

    /// The entities, by their names.
    public let entities: [BinaryText: Entity]
    /// The entities from which others inherit.
    let parents: Set<BinaryText>

    init(entities: [BinaryText: Entity]) {
        self.entities = entities
        parents = Set(names: entities.values.compactMap(\.parent))
    }

    /// The number of properties to visit for the order of all entities' properties; nil if it exceeds a
    /// limit.
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

    /// The path from an entity to its root; nil if it is a cycle, or leads to a missing entity.
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
                // A sub-entity's version of an inherited property counts.
                guard let property = entity.properties[name] else { return nil }
                ordered.append(property)
            }
        }
        return ordered
    }
}
