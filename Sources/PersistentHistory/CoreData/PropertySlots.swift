/// Which properties the bits of `ACHANGE.ZCOLUMNS` stand for, for one entity.
struct PropertySlots: Sendable {
    /// What an update wrote.
    struct Changed: Sendable, Hashable {
        /// By name, in byte order.
        var names: [String] = []
        /// Nil where `names` is all; empty where nothing is known. Otherwise the relationships that changed besides, of
        /// which only the places in their group are known: `toMany#0`.
        var unnamed: [String]?

        static let unknown = Changed(unnamed: [])
    }

    /// The names of the first slots; one may stand for several.
    let named: [String]
    /// To-many relationships: the order within each group is that of a hash table.
    let oneToMany: [String]
    let manyToMany: [String]
    /// Whether a group of one tells the name of its member. In which group a relationship without an inverse is, the
    /// model does not say.
    private let namesSingleMembers: Bool

    var count: Int { named.count + oneToMany.count + manyToMany.count }

    /// - Parameter model: Nil where the slots of this entity are not known for certain.
    init?(of entity: String, in model: ObjectModel) {
        guard let properties = model.orderedProperties(of: entity) else { return nil }
        var toOne: [String] = []
        // A destination with sub-entities takes a column for the entity, an inverse with an order one for the place.
        var entityColumns: [String] = []
        var orderColumns: [String] = []
        var attributes: [String] = []
        var oneToMany: [String] = []
        var manyToMany: [String] = []
        var hasOneWay = false
        for property in properties {
            switch property.kind {
            case .attribute(let attribute):
                if !attribute.isTransient { attributes.append(property.name) }
            case .relationship(let relationship) where relationship.isToMany:
                hasOneWay = hasOneWay || relationship.inverse == nil
                if relationship.inverse?.isToMany == false {
                    oneToMany.append(property.name)
                } else {
                    manyToMany.append(property.name)
                }
            case .relationship(let relationship):
                toOne.append(property.name)
                guard let destination = relationship.destination else { return nil }
                if model.parents.contains(destination) { entityColumns.append(property.name) }
                if let inverse = relationship.inverse, inverse.isToMany, inverse.isOrdered {
                    orderColumns.append(property.name)
                }
            case .fetchedProperty: break
            case .other: return nil
            }
        }
        named = toOne + entityColumns + orderColumns + attributes
        self.oneToMany = oneToMany
        self.manyToMany = manyToMany
        namesSingleMembers = !hasOneWay || oneToMany.count + manyToMany.count == 1
    }

    /// The properties of a bitmap, its most significant bits first.
    func changed(_ bitmap: UnsafeBufferPointer<UInt8>) -> Changed {
        guard bitmap.count == (count + 7) / 8 else { return .unknown }
        var names: Set<BinaryText> = []
        var unnamed: [String] = []
        for (index, byte) in bitmap.enumerated() where byte != 0 {
            for bit in 0..<8 where byte & 0x80 >> bit != 0 {
                let slot = index * 8 + bit
                guard slot < count else { return .unknown }
                switch slot - named.count {
                case ..<0: names.insert(named[slot])
                case let place where place < oneToMany.count:
                    add(place, of: oneToMany, "toMany", &names, &unnamed)
                case let place:
                    add(place - oneToMany.count, of: manyToMany, "manyToMany", &names, &unnamed)
                }
            }
        }
        return Changed(
            names: names.sorted().map(\.text),
            unnamed: unnamed.isEmpty ? nil : unnamed)
    }

    private func add(
        _ place: Int, of group: [String], _ kind: String, _ names: inout Set<BinaryText>,
        _ unnamed: inout [String]
    ) {
        if group.count == 1, namesSingleMembers {
            names.insert(group[0])
        } else {
            unnamed.append("\(kind)#\(place)")
        }
    }
}
