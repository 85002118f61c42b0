/// The bit positions of an entity's properties in `ZCOLUMNS`, as Core Data assigns them, and the names that can
/// be derived from them.
public struct PropertyLayout: Sendable {
    /// The property of each slot.
    public let slots: [String]
    /// The to-many relationships, in an order that cannot be derived from the model.
    let oneToMany: [String]
    let manyToMany: [String]
    /// Whether a to-many relationship without an inverse exists beside another one: then no name is certain.
    private let isUncertain: Bool

    public init(of entity: String, in model: StoreModel, _ random: inout some RandomNumberGenerator) {
        var relationships: [StoreModel.Relationship] = []
        var attributes: [String] = []
        for level in model.line(of: entity) {
            relationships += level.relationships.sorted {
                Array($0.name.utf8).lexicographicallyPrecedes(Array($1.name.utf8))
            }
            attributes += level.attributes.filter { !$0.isTransient }.map(\.name)
                .sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) }
        }
        let toOne = relationships.filter { !$0.isToMany }
        let toMany = relationships.filter(\.isToMany)
        let many = toMany.filter { model.inverse(of: $0)?.isToMany != false }.map(\.name)
        oneToMany = toMany.map(\.name).filter { !many.contains($0) }.shuffled(using: &random)
        manyToMany = many.shuffled(using: &random)
        isUncertain = toMany.count > 1 && toMany.contains { $0.inverse == nil }
        slots =
            toOne.map(\.name)
            + toOne.filter { model.hasChildren($0.destination) }.map(\.name)
            + toOne.filter { relationship in
                guard let inverse = model.inverse(of: relationship) else { return false }
                return inverse.isToMany && inverse.isOrdered
            }.map(\.name)
            + attributes + oneToMany + manyToMany
    }

    /// The bitmap of an update of some properties: for a property with several slots any of them, at least one.
    func bitmap(_ properties: Set<String>, _ random: inout some RandomNumberGenerator) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: (slots.count + 7) / 8)
        for property in properties {
            let places = slots.indices.filter { slots[$0] == property }.shuffled(using: &random)
            for place in places.prefix(Int.random(in: 1...max(1, places.count), using: &random)) {
                bytes[place >> 3] |= 0x80 >> UInt8(place & 7)
            }
        }
        return bytes
    }

    /// What can be derived of an update: names, in byte order, and the slots of relationships without a name.
    public func known(_ properties: Set<String>) -> (names: [String], unnamed: [String]) {
        var names: [String] = []
        var unnamed: [(Int, String)] = []
        for property in properties {
            if let place = oneToMany.firstIndex(of: property), oneToMany.count > 1 || isUncertain {
                unnamed.append((place, "toMany#\(place)"))
            } else if let place = manyToMany.firstIndex(of: property), manyToMany.count > 1 || isUncertain {
                unnamed.append((1000 + place, "manyToMany#\(place)"))
            } else {
                names.append(property)
            }
        }
        return (
            names.sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) },
            unnamed.sorted { $0.0 < $1.0 }.map(\.1)
        )
    }
}
