import GRDB

/// Checks whether the tables belong to the model. Each attribute and each to-one relationship has a
/// column. A to-one relationship to an entity with sub-entities has another one for the entity's number,
/// and one whose inverse is ordered has another one for the place in that order. There are no other
/// columns. If a column is missing or additional, the table belongs to another model, and the places of
/// all properties may differ.
struct ModelColumns {
    private let model: ObjectModel
    private let columns: [BinaryText: Set<BinaryText>]
    /// The tables that have a column without a property.
    private let foreign: Set<BinaryText>

    init(_ db: Database, _ model: ObjectModel) throws {
        self.model = model
        let tables = Set<BinaryText>(
            names: model.entities.values.filter { $0.parent == nil }.map { Self.table(of: $0.name) })
        var columns: [BinaryText: Set<BinaryText>] = [:]
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT t.name AS "table", c.name AS "column" FROM sqlite_master AS t JOIN pragma_table_xinfo(t.name) AS c
                WHERE t.type = 'table' AND t.name LIKE 'Z%' AND t.sql NOT LIKE 'CREATE VIRTUAL%'
                """)
        while let row = try rows.next() {
            let table = try row.text("table")
            if tables.contains(table) { columns[table, default: []].insert(try row.text("column")) }
        }
        self.columns = columns
        foreign = Self.foreign(columns, model)
    }

    private static func table(of root: String) -> String { "Z" + root.uppercased() }

    /// The column of a property. For a sibling's property of the same name, a number is appended.
    private static func column(of property: String) -> String { "Z" + property.uppercased() }

    private static func foreign(_ columns: [BinaryText: Set<BinaryText>], _ model: ObjectModel)
        -> Set<BinaryText>
    {
        var names: [BinaryText: Set<BinaryText>] = [:]
        var open: Set<BinaryText> = []
        for entity in model.entities.values {
            guard let root = model.ancestry(of: entity.name)?.last else { continue }
            let table = BinaryText(table(of: root.name))
            for property in entity.properties.values {
                if hasColumn(property.kind) {
                    names[table, default: []].insert(BinaryText(column(of: property.name)))
                }
                // It may have any columns.
                if case .other = property.kind { open.insert(table) }
            }
        }
        return Set(
            columns.filter { table, columns in
                let known = names[table] ?? []
                return !open.contains(table)
                    && columns.contains { column in
                        !isOwn(column.text) && !known.contains(column)
                            && !known.contains(BinaryText(column.text.withoutDigits))
                    }
            }.keys)
    }

    /// Whether a column is Core Data's own, and belongs to no single property.
    private static func isOwn(_ column: String) -> Bool {
        if ["Z_PK", "Z_ENT", "Z_OPT"].contains(column) || column.hasBytePrefix("Z_FOK_") { return true }
        return column.utf8.first == UInt8(ascii: "Z") && column.utf8.dropFirst().first?.isDigit == true
    }

    private static func hasColumn(_ kind: ObjectModel.Property.Kind) -> Bool {
        switch kind {
        case .attribute(let attribute): !attribute.isTransient
        case .relationship(let relationship): !relationship.isToMany
        case .fetchedProperty, .other: false
        }
    }

    // MARK: One entity

    /// Whether an entity's table agrees with the model.
    func agree(with name: String) -> Bool {
        guard let chain = model.ancestry(of: name), let entity = chain.first, let root = chain.last else {
            return false
        }
        let table = BinaryText(Self.table(of: root.name))
        guard let found = columns[table], !foreign.contains(table) else { return false }
        var names = Set<BinaryText>()
        for property in entity.properties.values where Self.hasColumn(property.kind) {
            names.insert(BinaryText(Self.column(of: property.name)))
        }
        for name in names where !found.contains(name) {
            // A column of another property does not count.
            let isNumbered = found.contains { column in
                !names.contains(column) && column.text.withoutDigits.hasSameBytes(as: name.text)
            }
            guard isNumbered else { return false }
        }
        return entity.properties.values.allSatisfy { hasFurtherColumns($0, found) }
    }

    private func hasFurtherColumns(_ property: ObjectModel.Property, _ found: Set<BinaryText>) -> Bool {
        guard case .relationship(let relationship) = property.kind, !relationship.isToMany else { return true }
        let column = property.name.uppercased()
        if let destination = relationship.destination, model.parents.contains(destination),
            !found.contains(where: { Self.isEntityColumn($0.text, of: column) })
        {
            return false
        }
        guard let inverse = relationship.inverse, inverse.isToMany, inverse.isOrdered else { return true }
        return found.contains { $0.text.hasBytePrefix("Z_FOK_" + column) }
    }

    /// `Z9_PARENT` or `Z9PARENT`, possibly followed by a number if siblings have columns of the same
    /// name.
    private static func isEntityColumn(_ column: String, of name: String) -> Bool {
        var rest = column.utf8.dropFirst().drop(while: \.isDigit)
        if rest.first == UInt8(ascii: "_") { rest = rest.dropFirst() }
        return rest.starts(with: name.utf8) && rest.dropFirst(name.utf8.count).allSatisfy(\.isDigit)
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= self }
}

extension String {
    /// The name without digits at the end.
    fileprivate var withoutDigits: String {
        String(decoding: utf8.reversed().drop(while: \.isDigit).reversed(), as: UTF8.self)
    }
}
