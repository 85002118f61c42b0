import GRDB
import GRDBSQLite

/// Decodes the rows of `ACHANGE` that `CoreDataTables.changeQuery` selects.
struct CoreDataDecoder {
    typealias Known = CoreDataCatalog.Known

    private let catalog: CoreDataCatalog
    /// Consecutive rows usually belong to one entity.
    private var last: (number: Int64, known: Known)?
    /// Most updates of an entity change one of a few sets of properties.
    private var changed: [Bitmap: PropertySlots.Changed] = [:]
    private var unnamed: [Int64: Known] = [:]

    private struct Bitmap: Hashable {
        let entity: Int64
        let bytes: [UInt8]
    }

    /// More than any store needs. Beyond this, the cache is cleared.
    private static let mostBitmaps = 1000

    init(_ catalog: CoreDataCatalog) { self.catalog = catalog }

    /// The entity and the operation of the current row.
    mutating func kind(_ row: OpaquePointer) throws -> (Known, ChangeOperation) {
        let operation: ChangeOperation
        switch sqlite3_column_type(row, 2) == SQLITE_INTEGER ? sqlite3_column_int64(row, 2) : -1 {
        case 0: operation = .insert
        case 1: operation = .update
        case 2: operation = .delete
        default:
            throw UnexpectedValue(
                "the operation of the change \(sqlite3_column_int64(row, 0))",
                expected: "0, 1 or 2", found: row, 2)
        }
        let number = try integer(row, 3, "entity")
        if let last, last.number == number { return (last.known, operation) }
        let known = known(number)
        last = (number, known)
        return (known, operation)
    }

    private mutating func known(_ number: Int64) -> Known {
        if let known = catalog.entities[number] ?? unnamed[number] { return known }
        let known = CoreDataCatalog.unnamed(number, nil)
        if unnamed.count < Self.mostBitmaps { unnamed[number] = known }
        return known
    }

    func objectID(_ row: OpaquePointer, _ known: Known) throws -> ObjectID {
        ObjectID(columns: known.entity.json.keyColumns, value: .integer(try integer(row, 4, "object")))
    }

    private func integer(_ row: OpaquePointer, _ column: Int32, _ what: String) throws -> Int64 {
        guard sqlite3_column_type(row, column) == SQLITE_INTEGER else {
            throw UnexpectedValue(
                "the \(what) of the change \(sqlite3_column_int64(row, 0))", expected: "an integer", found: row,
                column)
        }
        return sqlite3_column_int64(row, column)
    }

    mutating func change(
        _ row: OpaquePointer, _ known: Known, _ operation: ChangeOperation, _ objectID: ObjectID,
        at time: HistoryTimestamp
    ) throws -> HistoryChange {
        switch operation {
        case .insert: return HistoryChange(entity: known.entity, operation: .insert, objectID: objectID)
        case .update:
            let changed = changed(row, known)
            return HistoryChange(
                entity: known.entity, operation: .update, objectID: objectID, changedProperties: changed.names,
                unnamedProperties: changed.unnamed)
        case .delete:
            return HistoryChange(
                entity: known.entity, operation: .delete, objectID: objectID,
                tombstone: tombstone(row, known, at: time))
        }
    }

    private mutating func changed(_ row: OpaquePointer, _ known: Known) -> PropertySlots.Changed {
        guard let slots = known.slots, sqlite3_column_type(row, 5) == SQLITE_BLOB else { return .unknown }
        let count = Int(sqlite3_column_bytes(row, 5))
        let bytes = UnsafeBufferPointer(
            start: sqlite3_column_blob(row, 5)?.assumingMemoryBound(to: UInt8.self), count: count)
        // A bitmap of another size may have any length.
        guard count == (slots.count + 7) / 8 else { return .unknown }
        let bitmap = Bitmap(entity: known.entity.shape, bytes: Array(bytes))
        if let changed = changed[bitmap] { return changed }
        let new = slots.changed(bytes)
        if changed.count >= Self.mostBitmaps { changed.removeAll() }
        changed[bitmap] = new
        return new
    }

    private func tombstone(_ row: OpaquePointer, _ known: Known, at time: HistoryTimestamp) -> Tombstone? {
        var values: [(column: Entity.Column, value: HistoryValue)] = []
        // A null says nothing: the attribute had no value, or it was not preserved.
        for index in 0..<catalog.tables.tombstones
        where sqlite3_column_type(row, Int32(6 + index)) != SQLITE_NULL {
            values.append(known.preserved.value(index, HistoryValue(row, Int32(6 + index))))
        }
        if values.isEmpty, known.preserved.columns.isEmpty { return nil }
        return Tombstone(values: values, deletedDate: time)
    }
}

/// The origins of the transactions that `CoreDataTables.transactionQuery` selects. Most have one of a
/// few.
struct CoreDataOrigins {
    private struct Key: Hashable {
        let numbers: [Int64]
        let texts: [BinaryText?]
    }

    private var known: [Key: Authorship] = [:]
    private var last: (key: Key, authorship: Authorship)?
    private static let most = 1000
    /// No name or path is longer.
    private static let longest = 1 << 16

    mutating func origin(_ row: OpaquePointer, _ db: Database, _ tables: CoreDataTables) throws -> Origin {
        let type = sqlite3_column_type(row, 1)
        guard type == SQLITE_FLOAT || type == SQLITE_INTEGER else {
            throw UnexpectedValue(
                "the time of the transaction \(sqlite3_column_int64(row, 0))", expected: "a number", found: row,
                1)
        }
        let time = HistoryTimestamp(secondsSince2001: sqlite3_column_double(row, 1))
        if let last, try isLast(row, last.key) { return Origin(last.authorship, timestamp: time) }
        let key = try key(row)
        let authorship = try known[key] ?? authorship(key, db)
        if known.count >= Self.most { known.removeAll() }
        known[key] = authorship
        last = (key, authorship)
        return Origin(authorship, timestamp: time)
    }

    private func isLast(_ row: OpaquePointer, _ key: Key) throws -> Bool {
        for index in 0..<4 {
            let column = Int32(2 + index)
            let number =
                sqlite3_column_type(row, column) == SQLITE_NULL ? Int64.min : sqlite3_column_int64(row, column)
            guard number == key.numbers[index] else { return false }
            if number != .min { continue }
            if let text = key.texts[index] {
                guard row.isText(column + 4, text.text) else { return false }
            } else if sqlite3_column_type(row, column + 4) != SQLITE_NULL {
                return false
            }
        }
        return true
    }

    private func key(_ row: OpaquePointer) throws -> Key {
        var numbers: [Int64] = []
        var texts: [BinaryText?] = []
        for index: Int32 in 0..<4 {
            let isNull = sqlite3_column_type(row, 2 + index) == SQLITE_NULL
            numbers.append(isNull ? .min : sqlite3_column_int64(row, 2 + index))
            texts.append(isNull ? try Self.text(row, 6 + index).map { BinaryText($0) } : nil)
        }
        return Key(numbers: numbers, texts: texts)
    }

    /// A number refers to a text in a separate table. Without a number, the text is in the row itself.
    private func authorship(_ key: Key, _ db: Database) throws -> Authorship {
        let texts = try zip(key.numbers, key.texts).map { number, text in
            guard number != .min else { return text?.text }
            return try db.rows("SELECT ZNAME FROM ATRANSACTIONSTRING WHERE Z_PK = ?", number) { row in
                try row.step(db) ? try Self.text(row, 0) : nil
            }
        }
        return Authorship(texts[0], texts[1], application: .init(process: texts[2], bundleID: texts[3]))
    }

    private static func text(_ row: OpaquePointer, _ column: Int32) throws -> String? {
        guard let bytes = row.textBytes(column) else { return nil }
        guard bytes.count <= longest else {
            throw UnexpectedValue("the name of an author, a context or a process has \(bytes.count) bytes")
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension HistoryTimestamp {
    /// A time as Core Data stores it, to the microsecond. Anything finer than milliseconds is cut off.
    init(secondsSince2001 seconds: Double) {
        let microseconds = (seconds * 1_000_000).rounded()
        guard microseconds.magnitude < 1e21, let whole = Int64(exactly: (microseconds / 1000).rounded(.down))
        else {
            self.init(milliseconds: seconds < 0 ? Self.range.lowerBound : Self.range.upperBound)
            return
        }
        self.init(milliseconds: whole + 978_307_200_000)
    }
}
