import GRDB
import GRDBSQLite

/// Reads the rows of changed objects, each once, in the read transaction that reads their changes.
struct RowValueReader {
    /// What happens if the total size of the values exceeds the limit.
    enum Excess {
        /// No further row is read.
        case ends(at: Int)
        /// Texts and blobs are cut.
        case cuts(at: Int)
    }

    /// The limit for a batch. A transaction with more values counts as large, and is read part by part.
    static let mostOfBatch = 8 << 20

    private let db: Database
    private let tables: RowTables
    private let position: HistoryToken
    private let wanted: WantedValues
    private let excess: Excess
    /// The tables found so far, by entity: the schema does not change during the transaction.
    private var known: [BinaryText: RowTable?] = [:]
    private var rows: [BinaryText: RowValues.Rows] = [:]
    private var verdicts: [RowCondition: RowVerdicts] = [:]
    /// Conditions that took too long for a row. They are not evaluated for any other.
    private var slow: Set<RowCondition> = []
    private var bytes = 0

    init(
        _ db: Database, _ tables: RowTables, at position: HistoryToken, _ wanted: WantedValues, _ excess: Excess
    ) {
        self.db = db
        self.tables = tables
        self.position = position
        self.wanted = wanted
        self.excess = excess
    }

    var values: RowValues { RowValues(at: position, wanted, rows, verdicts) }

    /// - Parameter all: Whether to read deleted rows, too, which may exist again.
    /// - Returns: False if the limit was reached.
    mutating func read(_ changes: some Sequence<HistoryChange>, all: Bool = false) throws -> Bool {
        for change in changes {
            for condition in wanted.conditions where condition.entity.text.hasSameBytes(as: change.entity.name)
            {
                try judge(change, condition)
            }
            guard all || change.operation != .delete, wanted.includes(change.entity.name) else { continue }
            try read(change.objectID, of: change.entity)
            if case .ends(let most) = excess, bytes > most { return false }
        }
        return true
    }

    /// Evaluates a condition for a change's row, unless that is done.
    private mutating func judge(_ change: HistoryChange, _ condition: RowCondition) throws {
        guard verdicts[condition]?[change] == nil else { return }
        let verdict: RowVerdict
        if slow.contains(condition) {
            verdict = ConditionDatabase.tookTooLong
        } else {
            do {
                verdict = try tables.condition(condition, db).verdict(on: change, db)
            } catch let error as TableCondition.Unfit {
                verdict = .unfit(error.message)
            }
            if verdict == ConditionDatabase.tookTooLong { slow.insert(condition) }
        }
        verdicts[condition, default: RowVerdicts()][change] = verdict
    }

    private mutating func read(_ object: ObjectID, of entity: Entity) throws {
        let name = entity.name
        if let integer = object.integer(in: entity) {
            guard rows[name]?.integers[integer] == nil else { return }
            let row = try row(of: object, name)
            rows[name, default: RowValues.Rows()].integers[integer] = .some(row)
        } else {
            let text = object.keyText
            guard rows[name]?.texts[text] == nil else { return }
            let row = try row(of: object, name)
            rows[name, default: RowValues.Rows()].texts[text] = .some(row)
        }
    }

    private mutating func table(_ name: String) throws -> RowTable? {
        if let table = known[name] { return table }
        let table = try tables.table(name, db)
        known[name] = .some(table)
        return table
    }

    /// The approximate size of a row without its texts and blobs.
    private static let rowOverhead = 64
    private static let valueOverhead = 32

    private mutating func row(of object: ObjectID, _ name: String) throws -> RowValues.Row? {
        // A key of an older shape no longer identifies a row.
        guard let table = try table(name), table.key.fits(object) else { return nil }
        var row: RowValues.Row?
        var used = bytes
        _ = try table.read(object, db) { statement in
            guard row == nil else { return }
            var values: [HistoryValue] = []
            values.reserveCapacity(table.columns.count)
            var sizes: [Int: Int] = [:]
            used += Self.rowOverhead
            for column in 0..<table.columns.count {
                var limit = wanted.maximumBytes
                if case .cuts(let most) = excess { limit = min(limit, max(0, most - used)) }
                let (value, size) = HistoryValue.prefix(statement, Int32(column), atMost: limit)
                values.append(value)
                if let size { sizes[column] = size }
                used += Self.valueOverhead + value.byteCount
            }
            row = RowValues.Row(names: table.names, values: values, sizes: sizes)
        }
        bytes = used
        return row
    }
}

extension HistoryValue {
    /// A column of a statement's row, and its full size if it is cut.
    fileprivate static func prefix(_ statement: OpaquePointer, _ column: Int32, atMost limit: Int)
        -> (HistoryValue, size: Int?)
    {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_TEXT:
            guard let bytes = statement.textBytes(column), bytes.count > limit else { break }
            return (HistoryValue(textOf: bytes.prefix(upTo: textEnd(bytes, limit))), bytes.count)
        case SQLITE_BLOB:
            // Read the bytes first: that may convert a zeroblob.
            guard let start = sqlite3_column_blob(statement, column) else { break }
            let bytes = UnsafeRawBufferPointer(
                start: start, count: Int(sqlite3_column_bytes(statement, column)))
            guard bytes.count > limit else { break }
            return (.blob(Array(bytes.prefix(limit))), bytes.count)
        default: break
        }
        return (HistoryValue(statement, column), nil)
    }
}

/// Adds the rows of changed objects to their changes.
extension HistoryReader {
    /// Adds rows to a batch, as of the end of the history. It keeps as many transactions as fit into
    /// memory; a single one that does not fit becomes a large one.
    func adding(
        _ wanted: WantedValues, to batch: HistoryBatch, _ db: Database, end: Int64,
        after number: Int64, through last: Int64
    ) throws -> HistoryBatch {
        var reader = RowValueReader(
            db, rowTables, at: HistoryToken(store: storeID, number: end), wanted,
            .ends(at: RowValueReader.mostOfBatch))
        var batch = batch
        for (index, transaction) in batch.transactions.enumerated() {
            if try reader.read(transaction.changes) { continue }
            guard index > 0 else {
                return try rows(db).outlinedBatch(after: number, through: last, partSize: partSize)
            }
            let end = batch.transactions[index - 1].number
            batch = HistoryBatch(
                transactions: Array(batch.transactions[..<index]), end: end, isLast: false,
                fingerprint: try HistoryHeader(db, fingerprintAt: end).fingerprint)
            break
        }
        batch.values = reader.values
        return batch
    }

    /// The rows of a part of a large transaction.
    ///
    /// - Parameter all: Whether to read the rows that the changes deleted, too.
    func values(
        _ wanted: WantedValues?, of changes: [HistoryChange], all: Bool = false, _ db: Database,
        _ header: HistoryHeader
    ) throws -> RowValues? {
        guard let wanted else { return nil }
        var reader = RowValueReader(
            db, rowTables, at: HistoryToken(store: storeID, number: header.end), wanted,
            .cuts(at: CallValues.mostBytes))
        _ = try reader.read(changes, all: all)
        return reader.values
    }
}
