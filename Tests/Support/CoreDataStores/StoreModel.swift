/// A managed object model like an app's, from which tests generate stores.
public struct StoreModel: Sendable {
    /// The numbers are those of `NSAttributeType`.
    public enum AttributeType: Int, Sendable, CaseIterable {
        case integer16 = 100, integer32 = 200, integer64 = 300, decimal = 400, double = 500, float = 600
        case string = 700, boolean = 800, date = 900, binary = 1000, uuid = 1100, uri = 1200, transformable =
            1800

        /// The type of a column, as Core Data declares it.
        var columnType: String {
            switch self {
            case .integer16, .integer32, .integer64, .boolean: "INTEGER"
            case .decimal: "DECIMAL"
            case .double, .float: "FLOAT"
            case .string, .uri: "VARCHAR"
            case .date: "TIMESTAMP"
            case .binary, .uuid, .transformable: "BLOB"
            }
        }
    }

    public struct Attribute: Sendable {
        public var name: String
        public var type: AttributeType
        public var isTransient = false
        public var isDerived = false
        public var isPreserved = false

        public init(
            _ name: String, _ type: AttributeType, isTransient: Bool = false, isDerived: Bool = false,
            isPreserved: Bool = false
        ) {
            self.name = name
            self.type = type
            self.isTransient = isTransient
            self.isDerived = isDerived
            self.isPreserved = isPreserved
        }
    }

    public struct Relationship: Sendable {
        public var name: String
        public var destination: String
        public var isToMany: Bool
        public var isOrdered = false
        public var inverse: String?

        public init(
            _ name: String, to destination: String, isToMany: Bool = false, isOrdered: Bool = false,
            inverse: String? = nil
        ) {
            self.name = name
            self.destination = destination
            self.isToMany = isToMany
            self.isOrdered = isOrdered
            self.inverse = inverse
        }
    }

    /// Only its own properties; inherited ones belong to its parent.
    public struct Entity: Sendable {
        public var name: String
        public var parent: String?
        public var attributes: [Attribute]
        public var relationships: [Relationship]

        public init(
            _ name: String, parent: String? = nil, attributes: [Attribute] = [],
            relationships: [Relationship] = []
        ) {
            self.name = name
            self.parent = parent
            self.attributes = attributes
            self.relationships = relationships
        }
    }

    public var entities: [Entity]

    public init(_ entities: [Entity]) { self.entities = entities }

    public func entity(_ name: String) -> Entity? { entities.first { $0.name == name } }

    /// The entities from the root to one.
    public func line(of name: String) -> [Entity] {
        guard let entity = entity(name) else { return [] }
        return (entity.parent.map { line(of: $0) } ?? []) + [entity]
    }

    public func hasChildren(_ name: String) -> Bool { entities.contains { $0.parent == name } }

    func inverse(of relationship: Relationship) -> Relationship? {
        guard let name = relationship.inverse else { return nil }
        for entity in line(of: relationship.destination) {
            if let found = entity.relationships.first(where: { $0.name == name }) { return found }
        }
        return nil
    }

    // MARK: Any model

    /// A model with inheritance, relationships of all kinds, and attributes of all types.
    public static func any(_ random: inout some RandomNumberGenerator) -> StoreModel {
        var names = Names()
        var model = StoreModel([])
        for _ in 0..<Int.random(in: 1...7, using: &random) {
            let parent =
                Int.random(in: 0..<5, using: &random) < 2
                ? model.entities.randomElement(using: &random)?.name : nil
            var entity = Entity(names.next("Entity", &random), parent: parent)
            for _ in 0..<Int.random(in: 0...14, using: &random) {
                entity.attributes.append(
                    Attribute(
                        names.next("", &random),
                        AttributeType.allCases.randomElement(using: &random) ?? .string,
                        isTransient: Int.random(in: 0..<9, using: &random) == 0,
                        isDerived: Int.random(in: 0..<9, using: &random) == 0,
                        isPreserved: Int.random(in: 0..<4, using: &random) == 0))
            }
            model.entities.append(entity)
        }
        for _ in 0..<Int.random(in: 0...(2 * model.entities.count), using: &random) {
            model.relate(&names, &random)
        }
        return model
    }

    private mutating func relate(_ names: inout Names, _ random: inout some RandomNumberGenerator) {
        let (from, to) = (
            entities.indices.randomElement(using: &random), entities.indices.randomElement(using: &random)
        )
        guard let from, let to else { return }
        let (name, back) = (names.next("", &random), names.next("", &random))
        let (isToMany, isBackToMany) = (Bool.random(using: &random), Bool.random(using: &random))
        let hasInverse = Int.random(in: 0..<6, using: &random) > 0
        entities[from].relationships.append(
            Relationship(
                name, to: entities[to].name, isToMany: isToMany,
                isOrdered: isToMany && Bool.random(using: &random), inverse: hasInverse ? back : nil))
        guard hasInverse else { return }
        entities[to].relationships.append(
            Relationship(
                back, to: entities[from].name, isToMany: isBackToMany,
                isOrdered: isBackToMany && Bool.random(using: &random), inverse: name))
    }

    /// Distinct names whose byte order differs from dictionary order.
    private struct Names {
        private var count = 0

        mutating func next(_ prefix: String, _ random: inout some RandomNumberGenerator) -> String {
            count += 1
            let stems = ["name", "nAme", "name_", "zeta", "zETA", "a", "aB", "grösse", "x2", "x10"]
            let stem = stems.randomElement(using: &random) ?? "name"
            return prefix.isEmpty ? "\(stem)\(count)" : "\(prefix)\(count)"
        }
    }
}
