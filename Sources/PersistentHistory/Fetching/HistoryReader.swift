import GRDB
import GRDBSQLite

/// Some transactions, in the order in which they were committed.
public struct HistoryBatch: Sendable {
    public let transactions: [HistoryTransaction]
    /// How far was read: the next batch begins after it, whatever was filtered out.
    public let end: Int64
    /// Whether it is known that there was nothing more when the batch was read.
    public let isLast: Bool
    /// Who made the change at the end, when; see `HistoryReader.mark(at:)`.
    let mark: String?

    /// With one that was read behind it.
    func extended(by next: HistoryBatch) -> HistoryBatch {
        HistoryBatch(
            transactions: transactions + next.transactions, end: next.end, isLast: next.isLast, mark: next.mark)
    }
}

/// Reads a store's history after a token: exactly, in bounded memory, without disturbing writers.
///
/// Each batch is read in a SQL transaction of its own, which ends with it: a long history holds up
/// neither checkpoints nor, in a rollback-journal store, writers.
public final class HistoryReader: Sendable {
    /// Changes after which a batch ends, as soon as a transaction does.
    public static let batchSize = 5000

    public let path: String
    public let storeID: StoreID
    private let queue: DatabaseQueue
    private let encoding: StoreEncoding
    /// Shapes never change and are seldom added: they are read when a new one is met.
    private let shapes = Locked<[Int64: Entity]>([:])

    /// - Parameter patience: Seconds to wait for a lock that another process holds.
    /// - Throws: `HistoryError`.
    public init(path: String, patience: Double = 5) throws {
        self.path = path
        queue = try StoreConnection.open(path, .read, patience: patience)
        (storeID, encoding) = try HistoryError.translating(path) { [queue] in
            try queue.read { db in
                guard try db.tableExists("historyd_store") else { throw HistoryError.notTracked }
                let encoding = try String.fetchOne(db, sql: "PRAGMA encoding").flatMap(StoreEncoding.init)
                return (try HistoryHeader(db).storeID, encoding ?? .utf8)
            }
        }
    }

    /// Ends the connection.
    public func close() throws { try HistoryError.translating(path) { try queue.close() } }

    /// The token of the newest transaction; number 0 where nothing was ever recorded.
    ///
    /// - Throws: `HistoryError`.
    public func newestToken() throws -> HistoryToken { try token { $0.newest } }

    /// The oldest token after which can be read.
    ///
    /// - Throws: `HistoryError`.
    public func oldestToken() throws -> HistoryToken { try token { $0.floor } }

    /// When the first transaction after a place was made; nil where there is none.
    ///
    /// - Throws: `HistoryError`.
    func time(after number: Int64) throws -> HistoryTimestamp? {
        try read { db in
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql: "SELECT origin FROM historyd_change WHERE id > ? ORDER BY id LIMIT 1"),
                arguments: [number])
            return row.map { Origin($0[0] as DatabaseValue).timestamp }
        }
    }

    /// Who made the change of a number, when: what tells it from a change of the same number in a
    /// store that was restored and went on from there. Nil where it has been deleted.
    ///
    /// - Throws: `HistoryError`.
    func mark(at number: Int64) throws -> String? {
        try read { db in
            try String.fetchOne(
                try db.cachedStatement(
                    sql: "SELECT CAST(origin AS TEXT) FROM historyd_change WHERE id = ? AND kind & 3 <> 3"),
                arguments: [number])
        }
    }

    /// Another one after each change of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
    ///
    /// - Throws: `HistoryError`.
    public func schemaVersion() throws -> Int64 {
        try read { db in try Int64.fetchOne(try db.cachedStatement(sql: "PRAGMA schema_version")) ?? 0 }
    }

    private func token(_ number: (HistoryHeader) -> Int64) throws -> HistoryToken {
        try read { db in
            let header = try HistoryHeader(db)
            return HistoryToken(store: header.storeID, number: number(header))
        }
    }

    /// Reads the next transactions.
    ///
    /// - Parameters:
    ///   - number: Where to begin: the number of a token that was read before, 0 for the start.
    ///   - isPlace: Whether the number is how far somebody got: then 0 is not the start of whatever
    ///     there is, but a place that expires like any other.
    ///   - last: Nothing after this is read.
    ///   - changes: After how many changes to end. A declared writer's transaction is never split;
    ///     an undeclared writer's changes may be.
    /// - Throws: `HistoryError` with `.tokenExpired`, `.tokenAhead`, `.notTracked`, or what SQLite says.
    public func batch(
        after number: Int64, isPlace: Bool = false, through last: Int64 = .max, changes limit: Int = batchSize,
        filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try read { db in
            let header = try HistoryHeader(db)
            guard header.storeID == storeID else {
                throw HistoryError(.notTracked, "The history that was read is gone: the store is tracked anew.")
            }
            try Self.check(number, header, isPlace: isPlace)
            return try rows(db, filter).batch(after: number, through: last, limit: limit)
        }
    }

    /// Reads the next transactions on another connection to the same store, within its transaction.
    func batch(_ db: Database, after number: Int64) throws -> HistoryBatch {
        try rows(db, HistoryFilter()).batch(after: number, through: .max, limit: Self.batchSize)
    }

    /// Reads backwards from a token.
    ///
    /// - Parameter number: Read what is older than this; nil for everything.
    public func reversedBatch(
        before number: Int64?, changes limit: Int = batchSize, filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try read { db in
            try rows(db, filter, isReversed: true).batch(after: number ?? .max, through: .max, limit: limit)
        }
    }

    private func rows(_ db: Database, _ filter: HistoryFilter, isReversed: Bool = false) -> RowReader {
        let decoder = ChangeDecoder(encoding: encoding) { [shapes] shape in
            try shapes.withLock { known in
                if let entity = known[shape] { return entity }
                known = try EntityCatalog(db).shapes
                return known[shape]
            }
        }
        return RowReader(db: db, store: storeID, decoder: decoder, filter: filter, isReversed: isReversed)
    }

    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path) {
            try StoreConnection.rollingBack(path) { try queue.read(body) }
        }
    }

    static func expired(_ number: Int64, _ header: HistoryHeader) -> HistoryError {
        let oldest = HistoryToken(store: header.storeID, number: header.floor)
        return HistoryError(
            .tokenExpired,
            "The history after \(HistoryToken(store: header.storeID, number: number)) has been deleted; the oldest token that still works is \(oldest).",
            hint: "Begin anew from a copy of the data and that token.")
    }

    /// Another transaction stands where a token's stood.
    static func ahead(_ token: HistoryToken) -> HistoryError {
        HistoryError(
            .tokenAhead, "The transaction \(token) is not the one that it was.",
            hint: "The store was replaced or restored from a backup: begin anew from a copy of the data.")
    }

    /// The store's oldest history is at `floor`: from an older place something would be missing.
    static func check(_ number: Int64, _ header: HistoryHeader, isPlace: Bool = false) throws {
        if number > 0 || isPlace, number < header.floor { throw expired(number, header) }
        if number > max(header.newest, header.floor) {
            throw HistoryError(
                .tokenAhead,
                "The token \(HistoryToken(store: header.storeID, number: number)) is newer than the store's newest transaction, \(HistoryToken(store: header.storeID, number: header.newest)).",
                hint: "The store was replaced or restored from a backup: begin anew from a copy of the data.")
        }
    }
}

/// Steps through the rows of one batch.
private struct RowReader {
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
