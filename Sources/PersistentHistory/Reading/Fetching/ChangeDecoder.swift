internal import GRDBSQLite

/// Reads the rows of `historyd_change` from a statement that selects
/// `id, origin, kind, object, detail`.
package struct ChangeDecoder {
    private let encoding: StoreEncoding
    private let shape: (Int64) throws -> Entity?
    /// Consecutive rows usually have the same kind, and change the same columns.
    private var last: (kind: Int64, meaning: (Entity, ChangeOperation))?
    private var lastChanged: (entity: Entity, bits: Int64, names: [String])?

    package init(encoding: StoreEncoding, shape: @escaping (Int64) throws -> Entity?) {
        self.encoding = encoding
        self.shape = shape
    }

    /// The entity and operation of the current row; nil for a void row.
    ///
    /// - Throws: `UnexpectedValue` for a shape that the store does not know.
    @inline(__always) package mutating func kind(_ statement: OpaquePointer) throws -> (
        Entity, ChangeOperation
    )? {
        let kind = sqlite3_column_int64(statement, 2)
        if let last, last.kind == kind { return last.meaning }
        return try meaning(of: kind, statement)
    }

    private mutating func meaning(of kind: Int64, _ statement: OpaquePointer) throws
        -> (Entity, ChangeOperation)?
    {
        let operation: ChangeOperation
        switch kind & 3 {
        case 0: operation = .insert
        case 1: operation = .update
        case 2: operation = .delete
        default: return nil
        }
        guard let entity = try shape(kind >> 2) else {
            throw UnexpectedValue(
                "change \(sqlite3_column_int64(statement, 0)) has the shape \(kind >> 2), which it does not describe"
            )
        }
        last = (kind, (entity, operation))
        return (entity, operation)
    }

    /// The current row's change.
    mutating func change(
        _ statement: OpaquePointer, _ entity: Entity, _ operation: ChangeOperation, at time: HistoryTimestamp
    ) throws -> HistoryChange {
        var properties: [String] = []
        var tombstone: Tombstone?
        switch operation {
        case .insert: break
        case .update:
            properties = changedProperties(statement, entity)
        case .delete where !entity.preserved.isEmpty:
            let values =
                entity.hasPlainTombstone
                ? [HistoryValue(statement, 4)] : try list(statement, 4, count: entity.preserved.count)
            tombstone = Tombstone(values: Array(zip(entity.preserved, values)), deletedDate: time)
        case .delete: break
        }
        return HistoryChange(
            entity: entity, operation: operation, objectID: try objectID(statement, entity),
            changedProperties: properties, tombstone: tombstone)
    }

    private mutating func changedProperties(_ statement: OpaquePointer, _ entity: Entity) -> [String] {
        let detail = HistoryValue(statement, 4)
        if case .integer(let bits) = detail, let lastChanged, lastChanged.bits == bits,
            lastChanged.entity === entity
        {
            return lastChanged.names
        }
        let names = ChangedColumns.positions(detail).compactMap {
            entity.columns.indices.contains($0) ? entity.columns[$0].name : nil
        }
        if case .integer(let bits) = detail { lastChanged = (entity, bits, names) }
        return names
    }

    package func objectID(_ statement: OpaquePointer, _ entity: Entity) throws -> ObjectID {
        let columns = entity.json.keyColumns
        switch entity.key {
        case .rowid: return ObjectID(columns: columns, value: HistoryValue(statement, 3), isRowID: true)
        case .column: return ObjectID(columns: columns, value: HistoryValue(statement, 3).asKey)
        case .columns:
            if case .text(let text) = HistoryValue(statement, 3), text.hasPrefix("rowid:"),
                let rowid = Int64(text.dropFirst(6))
            {
                return ObjectID(columns: ObjectID.rowidColumns, value: .integer(rowid), isRowID: true)
            }
            return ObjectID(
                columns: columns, values: try list(statement, 3, count: columns.count).map(\.asKey))
        }
    }

    private func list(_ statement: OpaquePointer, _ column: Int32, count: Int) throws -> [HistoryValue] {
        let text: String? = if case .text(let text) = HistoryValue(statement, column) { text } else { nil }
        guard let values = text.flatMap({ ValueList.values($0, encoding: encoding) }), values.count == count
        else {
            throw UnexpectedValue(
                "change \(sqlite3_column_int64(statement, 0)) has a list of values that cannot be read")
        }
        return values
    }
}
