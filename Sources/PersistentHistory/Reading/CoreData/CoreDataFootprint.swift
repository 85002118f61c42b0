import GRDB
import GRDBSQLite

/// How much of the file a Core Data history uses, by entity and by month, and what is missing in it. It
/// is read once, in bounded memory.
public struct CoreDataFootprint: Sendable {
    /// The size of a part of the history.
    public struct Share: Sendable, Hashable {
        /// How many transactions there are.
        public fileprivate(set) var transactions: Int64 = 0
        /// How many changes they have.
        public fileprivate(set) var changes: Int64 = 0
        /// The size of the rows in bytes, estimated from their values.
        public fileprivate(set) var bytes: Int64 = 0
    }

    /// By the number of the entity.
    public private(set) var entities: [Int64: Share] = [:]
    /// By the month of the transactions' times, such as `2026-11`.
    public private(set) var months: [String: Share] = [:]
    /// The whole history.
    public private(set) var whole = Share()
    /// The numbers of transactions that are missing after the first, up to a hundred gaps.
    public private(set) var missing: [ClosedRange<Int64>] = []
    /// How many changes have no transaction.
    public private(set) var orphans: Int64 = 0
    /// The size of the history's tables and their indexes in the file; nil if SQLite was built without
    /// `dbstat`.
    public private(set) var fileBytes: Int64?

    /// The bytes that SQLite and Core Data store for a row in addition to its values.
    private static let overhead: Int64 = 30
    private static let mostGaps = 100
    /// A damaged store may contain any times and any entities.
    private static let mostShares = 10_000

    /// The footprint of a store without a history.
    static let none = CoreDataFootprint()
    private init() {}

    init(_ db: Database, _ tables: CoreDataTables, _ bounds: HistoryBounds) throws {
        let times = try db.cachedStatement(
            sql: "SELECT Z_PK, ZTIMESTAMP FROM ATRANSACTION NOT INDEXED ORDER BY Z_PK"
        ).sqliteStatement
        let changes = try db.cachedStatement(sql: tables.changeQuery("Z_PK >= ?1 ORDER BY Z_PK"))
            .sqliteStatement
        sqlite3_reset(times)
        sqlite3_reset(changes)
        sqlite3_bind_int64(changes, 1, .min)
        defer {
            sqlite3_reset(times)
            sqlite3_reset(changes)
        }
        var current: (number: Int64, month: String)?
        var last = bounds.floor
        var isAtRow = try times.step(db)
        func begin() throws {
            let number = sqlite3_column_int64(times, 0)
            let month = Self.month(sqlite3_column_double(times, 1))
            note(after: last, before: number)
            (current, last) = ((number, month), number)
            add(Share(transactions: 1, bytes: Self.overhead * 2), month, entity: nil)
            isAtRow = try times.step(db)
        }
        while try changes.step(db) {
            let owner = sqlite3_column_int64(changes, 1)
            while isAtRow, sqlite3_column_int64(times, 0) <= owner { try begin() }
            let bytes = Int64(changes.payload(from: 5, count: 1 + tables.tombstones)) + Self.overhead
            let isOwned = current?.number == owner
            if !isOwned { orphans += 1 }
            add(
                Share(changes: 1, bytes: bytes), isOwned ? current?.month : nil,
                entity: sqlite3_column_int64(changes, 3))
        }
        while isAtRow { try begin() }
        note(after: last, before: bounds.end + 1)
        do {
            fileBytes = try Int64.fetchOne(
                db,
                sql: """
                    SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master
                    WHERE tbl_name IN ('ATRANSACTION', 'ACHANGE', 'ATRANSACTIONSTRING'))
                    """)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            fileBytes = nil
        }
    }

    private mutating func note(after last: Int64, before next: Int64) {
        guard let gap = HistoryGap(after: last, before: next, floor: 0), missing.count < Self.mostGaps else {
            return
        }
        missing.append(gap.numbers)
    }

    private mutating func add(_ share: Share, _ month: String?, entity: Int64?) {
        whole.add(share)
        if let month, months.count < Self.mostShares || months[month] != nil {
            months[month, default: Share()].add(share)
        }
        if let entity, entities.count < Self.mostShares || entities[entity] != nil {
            entities[entity, default: Share()].add(share)
        }
    }

    private static func month(_ seconds: Double) -> String {
        String(HistoryTimestamp(secondsSince2001: seconds).description.prefix { $0 != "T" }.dropLast(3))
    }
}

extension CoreDataFootprint.Share {
    fileprivate mutating func add(_ other: Self) {
        transactions += other.transactions
        changes += other.changes
        bytes += other.bytes
    }
}
