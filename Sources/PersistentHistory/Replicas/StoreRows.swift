import GRDB
import GRDBSQLite

/// Rows of one of the store's tables as a virtual table of a replica's connection.
///
/// So one statement copies many rows from the store's snapshot on another connection, with SQLite's own
/// values; a statement for each row takes twice the time. The columns are the copied ones, `c0` and so
/// on, and three more. If `object` is given, it yields the row with that key text. If `first` and `last`
/// are given, it yields the rows identified by the integers in that range. Otherwise it yields all rows.
/// In a result, `object` is the integer or the text that a row was found by, or else its number among all
/// rows.
final class StoreRows {
    /// Its name on the replica's connection.
    let name: String
    let columnCount: Int32
    /// The index of the column whose integers form runs.
    let keyColumn: Int32?
    private let key: RowKey
    private let storePath: String
    private let select: String
    /// SQLite uses it as long as it knows the module.
    private let module = UnsafeMutablePointer<sqlite3_module>.allocate(capacity: 1)

    /// The store, while a statement reads, and the statements that read from it.
    private var store: Database?
    private var statements: [Lookup: OpaquePointer] = [:]
    private var failure: (any Error)?
    /// The key text by which a row is looked up.
    private(set) var text = ""
    /// Whether a requested key was not of the table's present kind.
    private(set) var metUnknownKey = false

    /// How rows are found.
    enum Lookup: Int32 { case nothing, object, rowid, run }

    /// - Parameters:
    ///   - name: A name that was never used on the replica's connection.
    ///   - columns: The columns to copy, as SQL.
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

    /// Registers the table on the replica's connection.
    func begin(_ replica: Database) throws {
        let rows = Unmanaged.passRetained(self)
        let code = sqlite3_create_module_v2(replica.sqliteConnection, name, module, rows.toOpaque()) { rows in
            if let rows { Unmanaged<StoreRows>.fromOpaque(rows).release() }
        }
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }

    /// Removes the table from the connection.
    func end(_ replica: Database) { sqlite3_create_module_v2(replica.sqliteConnection, name, nil, nil, nil) }

    /// Runs a body that reads the rows from a snapshot of the store.
    ///
    /// - Throws: What the body throws; `HistoryError` for errors of the store.
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

    /// Begins the look-up that a cursor requests.
    func begin(
        _ lookup: Lookup, _ arguments: UnsafeMutablePointer<OpaquePointer?>?, _ cursor: inout StoreCursor
    )
        throws
    {
        cursor.end()
        switch (lookup, arguments) {
        case (.object, let arguments?):
            // A replica may have noted anything.
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

    /// A table cannot have more rows than its file has bytes, unless its pages form a cycle.
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

    /// Keeps an error of the store, so that it is reported as the store's and not as the replica's.
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
/// SQLite reads it for each value of each row, so it has its own memory, without reference counting.
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

    /// Goes to the next row, and returns SQLite's result.
    mutating func step() -> Int32 {
        guard let statement else { return SQLITE_OK }
        let code = sqlite3_step(statement)
        isAtEnd = code != SQLITE_ROW
        number += 1
        if isEndless { return SQLITE_CORRUPT }
        return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code
    }

    /// Returns a value of the row to SQLite.
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
