import GRDBSQLite
internal import Glibc

/// Reads the rows of `historyd_change` from a statement that selects
/// `id, origin, kind, object, detail`.
struct ChangeDecoder {
    private let encoding: StoreEncoding
    private let shape: (Int64) throws -> Entity?
    /// Consecutive rows are usually of one kind, and change the same columns.
    private var last: (kind: Int64, meaning: (Entity, ChangeOperation))?
    private var lastChanged: (entity: Entity, bits: Int64, names: [String])?

    init(encoding: StoreEncoding, shape: @escaping (Int64) throws -> Entity?) {
        self.encoding = encoding
        self.shape = shape
    }

    /// What the current row says of its shape and operation; nil for a row that is void.
    ///
    /// - Throws: `UnexpectedValue` for a shape that the store does not know.
    @inline(__always) mutating func kind(_ statement: OpaquePointer) throws -> (Entity, ChangeOperation)? {
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
                ? [value(statement, 4)] : try list(statement, 4, count: entity.preserved.count)
            tombstone = Tombstone(values: Array(zip(entity.preserved, values)), deletedDate: time)
        case .delete: break
        }
        return HistoryChange(
            entity: entity, operation: operation, objectID: try objectID(statement, entity),
            changedProperties: properties, tombstone: tombstone)
    }

    private mutating func changedProperties(_ statement: OpaquePointer, _ entity: Entity) -> [String] {
        let detail = value(statement, 4)
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

    func objectID(_ statement: OpaquePointer, _ entity: Entity) throws -> ObjectID {
        let columns = entity.json.keyColumns
        switch entity.key {
        case .rowid: return ObjectID(columns: columns, value: value(statement, 3), isRowID: true)
        case .column: return ObjectID(columns: columns, value: value(statement, 3).asKey)
        case .columns:
            if case .text(let text) = value(statement, 3), text.hasPrefix("rowid:"),
                let rowid = Int64(text.dropFirst(6))
            {
                return ObjectID(columns: ObjectID.rowidColumns, value: .integer(rowid), isRowID: true)
            }
            return ObjectID(
                columns: columns, values: try list(statement, 3, count: columns.count).map(\.asKey))
        }
    }

    private func list(_ statement: OpaquePointer, _ column: Int32, count: Int) throws -> [HistoryValue] {
        let text: String? = if case .text(let text) = value(statement, column) { text } else { nil }
        guard let values = text.flatMap({ ValueList.values($0, encoding: encoding) }), values.count == count
        else {
            throw UnexpectedValue(
                "change \(sqlite3_column_int64(statement, 0)) has a list of values that cannot be read")
        }
        return values
    }

    /// A column of the current row, with its storage class.
    func value(_ statement: OpaquePointer, _ column: Int32) -> HistoryValue { HistoryValue(statement, column) }

    /// A text's bytes, until the statement's next step; nil if it is something else.
    static func bytes(_ statement: OpaquePointer, _ column: Int32) -> UnsafeBufferPointer<UInt8>? {
        guard sqlite3_column_type(statement, column) == SQLITE_TEXT,
            let start = sqlite3_column_text(statement, column)
        else { return nil }
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }

    static func isText(_ statement: OpaquePointer, _ column: Int32, _ text: String) -> Bool {
        guard let bytes = bytes(statement, column), let start = bytes.baseAddress else { return false }
        var text = text
        return text.withUTF8 { text in
            guard text.count == bytes.count, let own = text.baseAddress else {
                return text.count == bytes.count
            }
            return memcmp(own, start, text.count) == 0
        }
    }

    static func text(_ statement: OpaquePointer, _ column: Int32) -> String {
        guard let bytes = sqlite3_column_text(statement, column) else { return "" }
        return String(
            decoding: UnsafeBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, column))),
            as: UTF8.self)
    }
}

extension HistoryValue {
    /// A column of a statement's row, with its storage class.
    init(_ statement: OpaquePointer, _ column: Int32) {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: self = .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: self = .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            self = ChangeDecoder.bytes(statement, column).map { HistoryValue(textOf: $0) } ?? .text("")
        case SQLITE_BLOB:
            let count = Int(sqlite3_column_bytes(statement, column))
            self = .blob(
                sqlite3_column_blob(statement, column).map {
                    Array(UnsafeRawBufferPointer(start: $0, count: count))
                } ?? [])
        default: self = .null
        }
    }
}
