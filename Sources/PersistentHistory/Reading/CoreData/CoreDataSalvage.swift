import GRDB
import GRDBSQLite

/// Reads what is left of a damaged Core Data history: from the rows of the tables, without an index, and
/// past anything unreadable.
package struct CoreDataSalvage {
    /// The findings, in the order of the transactions.
    package enum Finding {
        /// A transaction. One with more than some thousand changes comes in parts, each with the
        /// transaction.
        case transaction(HistoryTransaction)
        /// Changes whose transaction is missing, so that their author and time are unknown.
        case changes([HistoryChange], of: HistoryToken)
        /// Missing transactions.
        case missing(ClosedRange<Int64>)
    }

    /// How much was found, and what is wrong.
    package struct Summary {
        package fileprivate(set) var transactions = 0
        package fileprivate(set) var changes = 0
        package fileprivate(set) var missing: Int64 = 0
        package fileprivate(set) var orphans = 0
        /// Existing rows with an impossible value.
        package fileprivate(set) var unreadable = 0
        /// SQLite's messages about the pages of the history's tables.
        package fileprivate(set) var damage: [String] = []

        package var isWhole: Bool { missing == 0 && orphans == 0 && unreadable == 0 && damage.isEmpty }
    }

    private let db: Database
    private let catalog: CoreDataCatalog
    private let newest: Int64
    private let body: (Finding) throws -> Void
    private var decoder: CoreDataDecoder
    private var origins = CoreDataOrigins()
    private var summary = Summary()
    private var last: Int64?

    /// - Throws: `HistoryError` if not even the tables can be found; what the body throws.
    package static func read(_ path: String, _ body: (Finding) throws -> Void) throws -> Summary {
        let connection = try UntouchedConnection(path: path, timeout: .seconds(5))
        let result = Result {
            try withoutActuallyEscaping(body) { body in
                try connection.read { db in
                    guard try StoreRecorder.hasCoreDataHistory(db) else { throw CoreDataReader.noHistory(path) }
                    // With this check, one bad cell would make its whole page unreadable. SQLite still
                    // checks each cell that it reads.
                    try db.execute(sql: "PRAGMA cell_size_check = OFF")
                    var salvage = try CoreDataSalvage(db, body)
                    try salvage.run()
                    return salvage.summary
                }
            }
        }
        try connection.close()
        return try result.get()
    }

    private init(_ db: Database, _ body: @escaping (Finding) throws -> Void) throws {
        self.db = db
        self.body = body
        catalog = try CoreDataCatalog(salvaging: db)
        decoder = CoreDataDecoder(catalog)
        newest = (try? CoreDataTables.bounds(db).end) ?? 0
    }

    private mutating func run() throws {
        var transactions = try SalvagedRows(
            db, catalog.tables.transactionQuery("> ?1 ORDER BY Z_PK"),
            catalog.tables.transactionQuery("= ?1"), atMost: newest)
        let highest = try? db.firstRow("SELECT max(Z_PK) FROM ACHANGE NOT INDEXED") {
            sqlite3_column_int64($0, 0)
        }
        var changes = try SalvagedRows(
            db, catalog.tables.changeQuery("Z_PK > ?1 ORDER BY Z_PK"), catalog.tables.changeQuery("Z_PK = ?1"),
            atMost: highest ?? newest * 100)
        defer {
            transactions.end()
            changes.end()
        }
        var transaction = try transactions.next(db)
        var change = try changes.next(db)
        while transaction != nil || change != nil {
            if let row = change, case let owner = sqlite3_column_int64(row, 1),
                transaction.map({ owner < sqlite3_column_int64($0, 0) }) ?? true
            {
                let found = try collect(&changes, &change, of: owner, at: nil)
                if !found.isEmpty { try tell(found, of: owner) }
            } else if let row = transaction {
                try tell(row, &changes, &change)
                transaction = try transactions.next(db)
            }
        }
        try tellMissing(before: newest + 1)
        summary.damage = damage()
    }

    /// Reports a transaction with its changes.
    private mutating func tell(
        _ row: OpaquePointer, _ changes: inout SalvagedRows, _ change: inout OpaquePointer?
    )
        throws
    {
        let id = sqlite3_column_int64(row, 0)
        guard HistoryPosition.range.contains(id) else {
            summary.unreadable += 1
            return
        }
        try tellMissing(before: id)
        last = id
        guard let origin = try? origins.origin(row, db, catalog.tables) else {
            summary.unreadable += 1
            return
        }
        summary.transactions += 1
        repeat {
            let found = try collect(&changes, &change, of: id, at: origin.timestamp)
            summary.changes += found.count
            try body(
                .transaction(
                    HistoryTransaction(
                        HistoryToken(store: catalog.storeID, number: id), origin.authorship, nil,
                        origin.timestamp, .changes(found))))
        } while change.map { sqlite3_column_int64($0, 1) == id } ?? false
    }

    private mutating func tell(_ found: [HistoryChange], of owner: Int64) throws {
        summary.orphans += found.count
        try body(.changes(found, of: HistoryToken(store: catalog.storeID, number: owner)))
    }

    private mutating func tellMissing(before id: Int64) throws {
        // What is missing before the first transaction was presumably purged.
        guard let last, let gap = HistoryGap(after: last, before: id, floor: 0) else { return }
        summary.missing += Int64(gap.numbers.count)
        try body(.missing(gap.numbers))
    }

    /// The next changes of a transaction, as many as fit into memory.
    private mutating func collect(
        _ changes: inout SalvagedRows, _ change: inout OpaquePointer?, of owner: Int64,
        at time: HistoryTimestamp?
    ) throws -> [HistoryChange] {
        var found: [HistoryChange] = []
        var size = ReadSize()
        while let row = change, sqlite3_column_int64(row, 1) == owner {
            if size.count >= HistoryReader.batchSize || size.bytes >= TransactionOutline.partBytes { break }
            size.add(1, bytes: row.payload(from: 5, count: 1 + catalog.tables.tombstones))
            do {
                let (known, operation) = try decoder.kind(row)
                found.append(
                    try decoder.change(
                        row, known, operation, try decoder.objectID(row, known),
                        at: time ?? HistoryTimestamp(milliseconds: 0)))
            } catch is UnexpectedValue {
                summary.unreadable += 1
            }
            change = try changes.next(db)
        }
        return found
    }

    /// Lists the damaged pages that SQLite finds.
    private func damage() -> [String] {
        ["ATRANSACTION", "ACHANGE", "Z_PRIMARYKEY"].flatMap { table -> [String] in
            let lines = try? String.fetchAll(db, sql: "PRAGMA integrity_check('\(table)')")
            return (lines ?? ["the table cannot be checked"]).filter { $0 != "ok" }.prefix(20).map {
                "\(table): \($0.split(separator: "\n").joined(separator: " "))"
            }
        }
    }
}

/// The rows of a table in the order of their numbers. After an unreadable page, the following rows are
/// tried one by one.
private struct SalvagedRows {
    private let scan: OpaquePointer
    private let single: OpaquePointer
    private let highest: Int64
    private var position = Int64.min
    /// The number tried last; nil while the scan continues.
    private var probed: Int64?
    private var found = 0

    /// After this many rows were found one by one, the scan is tried again.
    private static let mostProbes = 64
    /// At most this many numbers are tried one by one.
    private static let mostTried: Int64 = 5_000_000

    init(_ db: Database, _ scan: String, _ single: String, atMost highest: Int64) throws {
        self.scan = try db.cachedStatement(sql: scan).sqliteStatement
        self.single = try db.cachedStatement(sql: single).sqliteStatement
        self.highest = min(highest, HistoryPosition.range.upperBound)
        begin()
    }

    func end() {
        sqlite3_reset(scan)
        sqlite3_reset(single)
    }

    private func begin() {
        sqlite3_reset(scan)
        sqlite3_bind_int64(scan, 1, position)
    }

    mutating func next(_ db: Database) throws -> OpaquePointer? {
        if probed == nil {
            do {
                guard try scan.step(db) else { return nil }
                let number = sqlite3_column_int64(scan, 0)
                if number > position {
                    position = number
                    return scan
                }
            } catch let error as DatabaseError where Self.isDamage(error) {}
            probed = max(position, 0)
            found = 0
        }
        return try probe(db)
    }

    private mutating func probe(_ db: Database) throws -> OpaquePointer? {
        let end = min(highest, position > 0 ? position + Self.mostTried : Self.mostTried)
        while let number = probed, number < end {
            probed = number + 1
            sqlite3_reset(single)
            sqlite3_bind_int64(single, 1, number + 1)
            do {
                guard try single.step(db), sqlite3_column_int64(single, 0) == number + 1 else { continue }
            } catch let error as DatabaseError where Self.isDamage(error) { continue }
            position = number + 1
            found += 1
            if found == Self.mostProbes {
                // The damaged page may be over: this is the last of the rows found one by one.
                probed = nil
                begin()
            }
            return single
        }
        return nil
    }

    private static func isDamage(_ error: DatabaseError) -> Bool {
        [.SQLITE_CORRUPT, .SQLITE_IOERR].contains(error.resultCode)
    }
}
