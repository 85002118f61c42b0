/// The rows of changed objects as of one snapshot of the store, each once.
final class RowValues: Sendable {
    struct Row: Sendable {
        let names: RowNames
        let values: [HistoryValue]
        /// The full sizes of those that were cut when they were read, by their columns.
        let sizes: [Int: Int]
    }

    /// The rows of an entity by their keys; nil for one that is gone.
    struct Rows: Sendable {
        var integers: [Int64: Row?] = [:]
        /// See `ObjectID.keyText`.
        var texts: [BinaryText: Row?] = [:]
    }

    /// Where the history ended in the snapshot.
    let position: HistoryToken
    let wanted: WantedValues
    private let rows: [BinaryText: Rows]

    init(at position: HistoryToken, _ wanted: WantedValues, _ rows: [BinaryText: Rows]) {
        self.position = position
        self.wanted = wanted
        self.rows = rows
    }

    /// - Returns: Nil for a row that is gone, or was not wanted.
    func row(of object: ObjectID, in entity: Entity) -> Row? {
        guard let rows = rows[entity.name] else { return nil }
        if let integer = object.integer(in: entity) { return rows.integers[integer] ?? nil }
        return rows.texts[object.keyText] ?? nil
    }
}
