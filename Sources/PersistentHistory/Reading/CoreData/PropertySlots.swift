/// Maps the bits of `ACHANGE.ZCOLUMNS` to an entity's properties.
struct PropertySlots: Sendable {
    /// What an update changed.
    struct Changed: Sendable, Hashable {
        /// By name, in byte order.
        var names: [String] = []
        /// Nil if `names` is complete; empty if nothing is known. Otherwise the relationships that
        /// changed as well, of which only the index in their group is known: `toMany#0`.
        var unnamed: [String]?

        static let unknown = Changed(unnamed: [])
    }

    /// The names of the first slots. A name may occur in several.
    let named: [String]
    /// The to-many relationships. The order within each group is that of a hash table.
    let oneToMany: [String]
    let manyToMany: [String]
    /// Whether the only member of a group is known by name. The model does not show which group a
    /// relationship without an inverse belongs to.
    private let namesSingleMembers: Bool

    var count: Int { named.count + oneToMany.count + manyToMany.count }

    /// - Parameter model: Nil if the slots of this entity are not known for certain.
    init?(of entity: String, in model: ObjectModel) {
        guard let properties = model.orderedProperties(of: entity) else { return nil }
        var toOne: [String] = []
        // A destination with sub-entities adds a column for the entity; an ordered inverse adds one for
        // the place.
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

    /// The properties of a bitmap, from the most significant bits.
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

/// The attributes that the tombstones of an entity's deleted objects keep, from `ZTOMBSTONE0` on.
struct PreservedAttributes: Sendable {
    /// The columns, with the names of their types.
    let columns: [Entity.Column]
    private let types: [ObjectModel.AttributeType]

    init(of entity: String, in model: ObjectModel) {
        var columns: [Entity.Column] = []
        var types: [ObjectModel.AttributeType] = []
        for property in model.orderedProperties(of: entity) ?? [] {
            switch property.kind {
            case .attribute(let attribute) where attribute.isPreserved && !attribute.isTransient:
                columns.append(Entity.Column(name: property.name, declaredType: attribute.type.name))
                types.append(attribute.type)
            // It may have some of the columns.
            case .other:
                self = .none
                return
            default: break
            }
        }
        (self.columns, self.types) = (columns, types)
    }

    static let none = PreservedAttributes(columns: [], types: [])

    private init(columns: [Entity.Column], types: [ObjectModel.AttributeType]) {
        (self.columns, self.types) = (columns, types)
    }

    /// A value with the name of its attribute, in the form of its type. If its storage class does not fit
    /// the attribute, the name is uncertain, and the name of its column is used.
    func value(_ index: Int, _ stored: HistoryValue) -> (column: Entity.Column, value: HistoryValue) {
        if columns.indices.contains(index), let value = types[index].value(stored) {
            return (columns[index], value)
        }
        return (Entity.Column(name: "ZTOMBSTONE\(index)", declaredType: ""), stored)
    }
}

extension ObjectModel.AttributeType {
    /// A stored value in the form in which it is read; nil if it is not of this type.
    func value(_ stored: HistoryValue) -> HistoryValue? {
        switch (self, stored) {
        case (.integer16, .integer), (.integer32, .integer), (.integer64, .integer), (.boolean, .integer),
            (.double, .real), (.float, .real), (.string, .text), (.string, .invalidText), (.uri, .text),
            (.binary, .blob), (.transformable, .blob), (.decimal, .integer), (.decimal, .real),
            (.decimal, .text):
            stored
        case (.date, .real(let seconds)):
            SQLiteDate(secondsSince2001: seconds).map { .text($0.iso8601) } ?? stored
        case (.uuid, .blob(let bytes)) where bytes.count == 16:
            TombstoneText.text(of: stored, declaredType: "UUID").map { .text($0) }
        default: nil
        }
    }
}
