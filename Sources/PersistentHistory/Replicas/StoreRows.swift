import GRDB
import GRDBSQLite

/// Rows of one of the store's tables as a virtual table of a replica's connection.
///
/// So one statement copies many, from the store's snapshot on another connection, with SQLite's own values;
/// a statement for each row takes twice the time. Its columns are those that are copied, `c0` and so on, and
/// three more: where `object` is given, there is the row with the key that this text says; where `first` and
/// `last` are, there are the rows known by the integers from the one to the other; else there are all. As a
/// result `object` is the integer or the text that a row was found by, or else its number among all.
final class StoreRows {
    /// As which the replica's connection knows it.
    let name: String
    let columnCount: Int32
    /// Where the integers stand that make runs.
    let keyColumn: Int32?
    private let key: RowKey
    private let storePath: String
    private let select: String
    /// SQLite looks into it as long as it knows the module.
    private let module = UnsafeMutablePointer<sqlite3_module>.allocate(capacity: 1)

    /// The store, while a statement reads, and the statements that read from it.
    private var store: Database?
    private var statements: [Lookup: OpaquePointer] = [:]
    private var failure: (any Error)?
    /// The key's text by which a row is looked up.
    private(set) var text = ""
    /// Whether a key was asked for that is not of the table's present kind.
    private(set) var metUnknownKey = false

    /// By what rows are found.
    enum Lookup: Int32 { case nothing, object, rowid, run }

    /// - Parameters:
    ///   - name: One that nothing else ever had on the replica's connection.
    ///   - columns: What is copied, as SQL.
    init(_ name: String, of table: TableSchema, _ key: RowKey, columns: [String], at storePath: String) {
        self.name = name
        self.key = key
        self.storePath = storePath
        columnCount = Int32(columns.count)
        let column = table.keyIsRowid ? SQLText.name(table.primaryKey[0]) : key.integer
        keyColumn = column.flatMap { columns.firstIndex(of: $0) }.map(Int32.init)
        select = "SELECT \(columns.joined(separator: ", ")) FROM main.\(SQLText.name(table.name))"
        module.initialize(to: storeRowsModule())
    }

    deinit { module.deallocate() }

    /// Makes the table known to the replica's connection.
    func begin(_ replica: Database) throws {
        let rows = Unmanaged.passRetained(self)
        let code = sqlite3_create_module_v2(replica.sqliteConnection, name, module, rows.toOpaque()) { rows in
            if let rows { Unmanaged<StoreRows>.fromOpaque(rows).release() }
        }
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    /// Makes the connection forget it.
    func end(_ replica: Database) { sqlite3_create_module_v2(replica.sqliteConnection, name, nil, nil, nil) }

    /// Runs a body that reads the rows, of a snapshot of the store.
    ///
    /// - Throws: What the body throws; `HistoryError` for what fails in the store.
    func read(from store: Database, _ body: () throws -> Void) throws {
        self.store = store
        metUnknownKey = false
        defer {
            for statement in statements.values { sqlite3_reset(statement) }
            statements = [:]
            self.store = nil
            failure = nil
        }
        do {
            try body()
        } catch {
            throw failure ?? error
        }
    }

    // MARK: Looking up

    /// Begins to look up what a cursor is asked for.
    func begin(
        _ lookup: Lookup, _ arguments: UnsafeMutablePointer<OpaquePointer?>?, _ cursor: inout StoreCursor
    )
        throws
    {
        cursor.end()
        switch (lookup, arguments) {
        case (.object, let arguments?):
            // What a replica has noted may be anything.
            text = sqlite3_value_text(arguments[0]).map { String(cString: $0) } ?? ""
            guard let object = key.object(text) else {
                metUnknownKey = true
                return
            }
            cursor.begin(try statement(key.isByRowid(object) ? .rowid : .object), .object)
            cursor.statement?.bind(object.values)
        case (.run, let arguments?):
            guard key.integer != nil else {
                metUnknownKey = true
                return
            }
            cursor.begin(try statement(.run), .run)
            sqlite3_bind_value(cursor.statement, 1, arguments[0])
            sqlite3_bind_value(cursor.statement, 2, arguments[1])
        default: cursor.begin(try statement(.nothing), .nothing, atMost: try mostRows())
        }
    }

    /// No table has more rows than its file has bytes, unless its pages lead back to each other.
    private func mostRows() throws -> Int64 {
        guard let store else { return 0 }
        let pages = try store.firstRow("PRAGMA page_count") { sqlite3_column_int64($0, 0) }
        let size = try store.firstRow("PRAGMA page_size") { sqlite3_column_int64($0, 0) }
        return pages.multipliedReportingOverflow(by: size).partialValue
    }

    private func statement(_ lookup: Lookup) throws -> OpaquePointer {
        if let statement = statements[lookup] { return statement }
        guard let store else { throw DatabaseError(resultCode: .SQLITE_MISUSE) }
        let condition =
            switch lookup {
            case .nothing: ""
            case .object: " WHERE \(key.matches)"
            case .rowid: " WHERE \(key.matchesRowid)"
            case .run: " WHERE \(key.isInRun("?1", "?2"))"
            }
        let statement = try store.cachedStatement(sql: SQLText.cacheable(select + condition)).sqliteStatement
        statements[lookup] = statement
        return statement
    }

    /// Keeps an error of the store: it is reported as the store's, not as the replica's.
    func fail(_ error: (any Error)? = nil) -> Int32 {
        do {
            try HistoryError.translating(storePath) {
                throw error ?? store.map { DatabaseError(lastOf: $0) }
                    ?? DatabaseError(resultCode: .SQLITE_MISUSE)
            }
        } catch {
            failure = error
        }
        return SQLITE_ERROR
    }
}

/// The position of a statement in the store's rows.
///
/// SQLite asks it for each value of each row: it lies in memory of its own, and has no references to be counted.
struct StoreCursor {
    /// SQLite's own part comes first.
    private var base = sqlite3_vtab_cursor()
    let rows: Unmanaged<StoreRows>
    private let columnCount: Int32
    private let keyColumn: Int32
    private var lookup = StoreRows.Lookup.nothing
    private(set) var statement: OpaquePointer?
    private(set) var isAtEnd = true
    private(set) var number: Int64 = 0
    private var mostRows = Int64.max
    var isEndless: Bool { number > mostRows }

    init(_ rows: StoreRows) {
        self.rows = Unmanaged.passUnretained(rows)
        columnCount = rows.columnCount
        keyColumn = rows.keyColumn ?? -1
    }

    mutating func begin(
        _ statement: OpaquePointer, _ lookup: StoreRows.Lookup, atMost mostRows: Int64 = .max
    ) {
        sqlite3_reset(statement)
        self.mostRows = mostRows
        self.statement = statement
        self.lookup = lookup
        number = 0
    }

    mutating func end() {
        if let statement { sqlite3_reset(statement) }
        statement = nil
        isAtEnd = true
    }

    /// Goes to the next row; what SQLite says.
    mutating func step() -> Int32 {
        guard let statement else { return SQLITE_OK }
        let code = sqlite3_step(statement)
        isAtEnd = code != SQLITE_ROW
        number += 1
        if isEndless { return SQLITE_CORRUPT }
        return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code
    }

    /// Gives a value of the row.
    func give(_ column: Int32, to result: OpaquePointer?) {
        if column < columnCount {
            sqlite3_result_value(result, sqlite3_column_value(statement, column))
        } else if column > columnCount {
            sqlite3_result_null(result)
        } else {
            switch lookup {
            case .nothing: sqlite3_result_int64(result, number)
            case .run: sqlite3_result_value(result, sqlite3_column_value(statement, keyColumn))
            case .object, .rowid:
                let text = rows.takeUnretainedValue().text
                sqlite3_result_text64(result, text, UInt64(text.utf8.count), copied, UInt8(SQLITE_UTF8))
            }
        }
    }
}
