import GRDB
import GRDBSQLite

/// Steps through the rows of one batch.
struct HistoryRows {
    let db: Database
    let store: StoreID
    let decoder: ChangeDecoder
    let filter: HistoryFilter
    let isReversed: Bool

    func batch(after number: Int64, through last: Int64, limit: Int) throws -> HistoryBatch {
        let order = isReversed ? "< ?1 ORDER BY id DESC" : "> ?1 AND id <= ?2 ORDER BY id"
        let rows = try db.cachedStatement(
            sql: "SELECT id, origin, kind, object, detail FROM historyd_change WHERE id \(order)"
        ).sqliteStatement
        sqlite3_reset(rows)
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        if !isReversed { sqlite3_bind_int64(rows, 2, last) }

        var transactions: [HistoryTransaction] = []
        var assembler = TransactionAssembler(store: store, filter: filter, isReversed: isReversed)
        var run = Run.none
        var end = number
        var count = 0
        while true {
            let result = sqlite3_step(rows)
            if result == SQLITE_DONE { break }
            guard result == SQLITE_ROW else {
                throw DatabaseError(resultCode: ResultCode(rawValue: result), message: db.lastErrorMessage)
            }
            let id = sqlite3_column_int64(rows, 0)
            if !run.continues(with: rows) {
                // A batch ends between transactions.
                if count >= limit {
                    if let last = assembler.finish() { transactions.append(last) }
                    return HistoryBatch(transactions: transactions, end: end, isLast: false, mark: run.mark)
                }
                run = Run(rows)
                if let finished = assembler.begin(run.origin, at: id) { transactions.append(finished) }
            } else if run.isUndeclared, assembler.runLength >= limit {
                if let part = assembler.begin(run.origin, at: id) { transactions.append(part) }
                return HistoryBatch(transactions: transactions, end: end, isLast: false, mark: run.mark)
            }
            assembler.count(id)
            end = id
            count += 1
            if assembler.wantsChanges, let (entity, operation) = try decoder.kind(rows),
                filter.accepts(entity, operation)
            {
                let change = try decoder.change(rows, entity, operation, at: assembler.timestamp)
                if filter.accepts(change.objectID) { assembler.append(change) }
            }
        }
        if let last = assembler.finish() { transactions.append(last) }
        return HistoryBatch(transactions: transactions, end: end, isLast: last == .max, mark: run.mark)
    }
}

/// The origin of the run under way, compared with each row's as bytes.
private struct Run {
    private let text: [UInt8]?
    private let milliseconds: Int64
    let origin: Origin

    static let none = Run(text: nil, milliseconds: .min, origin: .undeclared(milliseconds: 0))

    var isUndeclared: Bool { text == nil }

    /// Nil for a row that is void.
    var mark: String? {
        if let text { return String(decoding: text, as: UTF8.self) }
        return milliseconds > 0 ? String(milliseconds) : nil
    }

    private init(text: [UInt8]?, milliseconds: Int64, origin: Origin) {
        self.text = text
        self.milliseconds = milliseconds
        self.origin = origin
    }

    init(_ row: OpaquePointer) {
        if sqlite3_column_type(row, 1) == SQLITE_TEXT {
            let text = ChangeDecoder.text(row, 1)
            self.init(text: Array(text.utf8), milliseconds: 0, origin: .declared(text))
        } else {
            let milliseconds = sqlite3_column_int64(row, 1)
            self.init(text: nil, milliseconds: milliseconds, origin: .undeclared(milliseconds: milliseconds))
        }
    }

    func continues(with row: OpaquePointer) -> Bool {
        guard sqlite3_column_type(row, 1) == SQLITE_TEXT else {
            return text == nil && milliseconds == sqlite3_column_int64(row, 1)
        }
        guard let text, let bytes = sqlite3_column_text(row, 1) else { return false }
        let other = UnsafeBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(row, 1)))
        return text.elementsEqual(other)
    }
}
