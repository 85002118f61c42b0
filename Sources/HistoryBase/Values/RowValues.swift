/// The rows of changed objects as of one snapshot of the store, each once.
package final class RowValues: Sendable {
    package struct Row: Sendable {
        let names: RowNames
        package let values: [HistoryValue]
        /// The full sizes of values that were cut when read, by column.
        let sizes: [Int: Int]

        package init(names: RowNames, values: [HistoryValue], sizes: [Int: Int]) {
            self.names = names
            self.values = values
            self.sizes = sizes
        }
    }

    /// The rows of an entity by key; nil for a deleted row.
    package struct Rows: Sendable {
        package var integers: [Int64: Row?] = [:]
        /// See `ObjectID.keyText`.
        package var texts: [BinaryText: Row?] = [:]

        package init(integers: [Int64: Row?] = [:], texts: [BinaryText: Row?] = [:]) {
            self.integers = integers
            self.texts = texts
        }
    }

    /// Where the history ended in the snapshot.
    let position: HistoryToken
    package let wanted: WantedValues
    private let rows: [BinaryText: Rows]
    private let verdicts: [RowCondition: RowVerdicts]

    package init(
        at position: HistoryToken, _ wanted: WantedValues, _ rows: [BinaryText: Rows],
        _ verdicts: [RowCondition: RowVerdicts] = [:]
    ) {
        self.position = position
        self.wanted = wanted
        self.rows = rows
        self.verdicts = verdicts
    }

    /// - Returns: Nil if that was not requested.
    func verdict(on change: HistoryChange, _ condition: RowCondition) -> RowVerdict? {
        verdicts[condition]?[change]
    }

    /// - Returns: Nil for a row that was deleted, or not requested.
    package func row(of object: ObjectID, in entity: Entity) -> Row? {
        guard let rows = rows[entity.name] else { return nil }
        if let integer = object.integer(in: entity) { return rows.integers[integer] ?? nil }
        return rows.texts[object.keyText] ?? nil
    }
}

/// The objects whose rows are wanted, and the conditions to evaluate on rows.
package struct WantedValues: Sendable, Equatable {
    /// Nil means every entity.
    var entities: Set<BinaryText>?
    /// Longer texts and blobs are cut.
    package var maximumBytes: Int
    /// The conditions to evaluate for each changed row, once for all hooks and feeds that have the same.
    package var conditions: Set<RowCondition> = []

    /// Whether rows are delivered, and not only evaluated.
    package var includesRows: Bool { entities?.isEmpty != true }

    /// The values for a filter with a condition; nil for other filters.
    package init?(_ filter: ChangeFilter) {
        guard let condition = filter.condition else { return nil }
        self.init(entities: [], maximumBytes: 0, conditions: [condition])
    }

    package init(entities: Set<BinaryText>?, maximumBytes: Int, conditions: Set<RowCondition> = []) {
        self.entities = entities
        self.maximumBytes = maximumBytes
        self.conditions = conditions
    }

    package func includes(_ entity: String) -> Bool { entities?.contains(entity) ?? true }

    /// The union of both.
    func union(_ other: WantedValues) -> WantedValues {
        WantedValues(
            entities: entities.flatMap { mine in other.entities.map(mine.union) },
            maximumBytes: max(maximumBytes, other.maximumBytes),
            conditions: conditions.union(other.conditions))
    }

    package static func union(_ all: some Sequence<WantedValues>) -> WantedValues? {
        all.reduce(nil) { sum, next in sum?.union(next) ?? next }
    }

    /// Whether these values suffice for the other request.
    package func covers(_ other: WantedValues) -> Bool { union(other) == self }
}

/// The values that a hook's call, or a line of a feed, contains with its objects.
package struct CallValues: Sendable {
    /// The maximum total size of the texts and blobs in one call.
    package static let mostBytes = 32 << 20

    package let rows: RowValues
    /// Longer texts and blobs are cut.
    package let maximumBytes: Int

    /// Nil if no values are wanted.
    package init?(_ rows: RowValues?, _ maximumBytes: Int?) {
        guard let rows, let maximumBytes else { return nil }
        self.rows = rows
        self.maximumBytes = maximumBytes
    }
}

/// Writes the values of one call or line directly as bytes.
package struct ValueWriter {
    private let values: CallValues
    private var rest = CallValues.mostBytes

    package init?(_ values: CallValues?) {
        guard let values else { return nil }
        self.values = values
    }

    /// The member `valuesAt`.
    package func writePosition(to json: inout JSONBytes) {
        json.member("valuesAt", values.rows.position)
    }

    /// The member `values`, and `cutValues` if texts or blobs were cut; nothing for a deleted row.
    package mutating func write(_ object: ObjectID, of entity: Entity, to json: inout JSONBytes) {
        guard let row = values.rows.row(of: object, in: entity) else { return }
        var cut: [(column: Int, size: Int)] = []
        json.name("values")
        json.object { json in
            for (column, value) in row.values.enumerated() {
                let limit = min(values.maximumBytes, rest)
                let count = value.byteCount
                if let size = row.sizes[column] ?? (count > limit ? count : nil) { cut.append((column, size)) }
                rest -= min(count, limit)
                json.members(row.names.members[column])
                HistoryJSON.write(count > limit ? value.prefix(limit) : value, to: &json)
            }
        }
        if cut.isEmpty { return }
        json.name("cutValues")
        json.object { json in
            for (column, size) in cut {
                json.members(row.names.members[column])
                json.integer(size)
            }
        }
    }
}

/// The columns of a table, as members of an object in JSON.
package final class RowNames: Sendable {
    let columns: [String]
    /// `"name":`
    let members: [[UInt8]]

    package init(_ columns: [String]) {
        self.columns = columns
        members = columns.map { name in
            var json = JSONBytes()
            json.name(name)
            return json.bytes.array
        }
    }
}
