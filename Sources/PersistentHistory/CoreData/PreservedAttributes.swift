/// The attributes that the tombstones of an entity's deleted objects keep: `ZTOMBSTONE0` is the first, and so on.
struct PreservedAttributes: Sendable {
    /// With the names of their types.
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
            // It may have columns among them.
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

    /// A value by the name of its attribute and in the form of its type. Where its storage class is not that of the
    /// attribute, the name is not known: it goes by that of its column.
    ///
    /// - Returns: Nil where the column is not in use.
    func value(_ index: Int, _ stored: HistoryValue) -> (column: Entity.Column, value: HistoryValue)? {
        if columns.indices.contains(index) {
            if case .null = stored { return (columns[index], .null) }
            if let value = types[index].value(stored) { return (columns[index], value) }
        }
        if case .null = stored { return nil }
        return (Entity.Column(name: "ZTOMBSTONE\(index)", declaredType: ""), stored)
    }
}

extension ObjectModel.AttributeType {
    /// A value as its column stores it, in the form in which it is read; nil where it is none of this type.
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
