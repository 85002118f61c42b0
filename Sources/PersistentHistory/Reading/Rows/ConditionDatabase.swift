import GRDB
import GRDBSQLite

/// Evaluates SQL conditions on rows of one table.
///
/// It is a separate in-memory database, with a table that has the columns of the store's: their names,
/// types and collations, and nothing else. So SQLite compares as in the store, and an expression can
/// access only the values of one row, whatever its author and the store's schema. A condition is a
/// generated column in it: SQLite itself refuses subqueries, aggregates, parameters and non-deterministic
/// functions (https://www.sqlite.org/gencol.html), and an authorizer refuses the rest.
///
/// A consumer's deliveries and its replica read through connections of their own, on threads of their own, and share it.
final class ConditionDatabase: Sendable {
    /// The longest text or blob that is evaluated. A larger value makes the condition fail.
    static let mostBytes = 1 << 20
    /// The longest expression.
    static let longestExpression = 10_000
    /// The maximum processor time for one row.
    static let mostTime: Duration = .milliseconds(10)

    /// A condition that fits the table.
    struct Compiled: Sendable {
        /// The columns that it reads, in the table's order.
        let columns: [String]
        fileprivate let insert: String
        fileprivate let result: String
    }

    /// What is wrong with a condition.
    struct Problem: Error {
        let message: String
    }

    nonisolated(unsafe) private let db: OpaquePointer
    /// Prepared once, because a row needs three.
    nonisolated(unsafe) private var statements: [String: OpaquePointer] = [:]
    private let guardian: ConditionGuardian
    private let columns: [Column]
    /// Its lock is the connection's, too: SQLite itself does not lock that.
    private let conditions = Locked<[BinaryText: Result<Compiled, Problem>]>([:])

    struct Column: Sendable {
        let name: String
        let declaredType: String
        let collation: String
    }

    /// - Throws: `DatabaseError`, also if a column has a collation that only the application knows.
    init(columns: [Column], isStrict: Bool) throws {
        var connection: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_MEMORY
        let result = sqlite3_open_v2(":memory:", &connection, flags, nil)
        guard result == SQLITE_OK, let connection else {
            sqlite3_close_v2(connection)
            throw DatabaseError(resultCode: ResultCode(rawValue: result))
        }
        db = connection
        guardian = ConditionGuardian()
        self.columns = columns
        // Otherwise a quoted name that is not a column would be a string.
        _disableDoubleQuotedStringLiterals(db)
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, Int32(Self.mostBytes + Self.longestExpression))
        sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000)
        sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 200)
        let list = columns.map { column in
            let type =
                isStrict || column.declaredType.isEmpty
                ? column.declaredType : SQLText.name(column.declaredType)
            return "\(SQLText.name(column.name)) \(type) COLLATE \(SQLText.name(column.collation))"
        }
        try run("CREATE TABLE row (\(list.joined(separator: ", ")))\(isStrict ? " STRICT" : "")")
        guardian.watch(db)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(db)
    }

    // MARK: Compiling

    /// - Throws: `Problem`.
    func compiled(_ expression: BinaryText) throws(Problem) -> Compiled {
        try conditions.withLock { conditions throws(Problem) in
            if let known = conditions[expression] { return try known.get() }
            let result: Result<Compiled, Problem>
            do throws(Problem) {
                result = .success(try compile(expression.text, conditions.count))
            } catch {
                result = .failure(error)
            }
            conditions[expression] = result
            return try result.get()
        }
    }

    private func compile(_ expression: String, _ number: Int) throws(Problem) -> Compiled {
        if let problem = Self.problem(of: expression) { throw Problem(message: problem) }
        // A line break ends a comment.
        let enclosed = "(\(expression)\n)"
        let read = try guarded(.reads) { try run("SELECT \(enclosed) FROM row") }
        var name = "historyd_condition_\(number)"
        while columns.contains(where: { SQLText.areSame($0.name, name) }) { name += "_" }
        _ = try guarded(.defines) { try run("ALTER TABLE row ADD COLUMN \(name) ANY AS \(enclosed)") }
        let known = Set(names: read.map(SQLText.folded))
        let names = columns.map(\.name).filter { known.contains(SQLText.folded($0)) }
        let places = names.map { _ in "?" }.joined(separator: ", ")
        let compiled = Compiled(
            columns: names,
            insert: names.isEmpty
                ? "INSERT INTO row DEFAULT VALUES"
                : "INSERT INTO row (\(names.map(SQLText.name).joined(separator: ", "))) VALUES (\(places))",
            result: "SELECT \(name) IS TRUE FROM row")
        // SQLite refuses queries of the current time only during evaluation.
        if case .failed(let text) = decide(compiled, names.map { _ in .null }),
            text.hasPrefix("non-deterministic")
        {
            throw Problem(message: text)
        }
        return compiled
    }

    /// Why a text is not a single expression; nil if it may be one.
    static func problem(of expression: String) -> String? {
        guard expression.utf8.count <= longestExpression else {
            return "it is longer than \(longestExpression) bytes"
        }
        var open = 0
        let tokens = SQLTokens.tokens(expression)
        for token in tokens {
            if token.isSymbol("(") { open += 1 }
            if token.isSymbol(")") { open -= 1 }
            if open < 0 || token.isSymbol(";") { return "it is more than one expression" }
            if token.kind == .variable { return "there are no parameters in it: \"\(token.text)\"" }
        }
        if open > 0 { return "a \"(\" has no \")\"" }
        return tokens.isEmpty ? "it is empty" : nil
    }

    private func guarded(_ mode: ConditionGuardian.Mode, _ body: () throws -> Void) throws(Problem) -> [String]
    {
        guardian.begin(mode)
        defer { guardian.begin(.evaluates) }
        do {
            try body()
            return guardian.columns
        } catch {
            throw Problem(message: guardian.refusal ?? Self.text(of: error))
        }
    }

    private static func text(of error: any Error) -> String {
        (error as? DatabaseError)?.message ?? "\(error)"
    }

    // MARK: Evaluating

    /// Whether a condition is true of a row.
    ///
    /// - Parameter values: The values of the columns that it reads, in their order.
    func verdict(_ condition: Compiled, _ values: [HistoryValue]) -> RowVerdict {
        conditions.withLock { _ in decide(condition, values) }
    }

    private func decide(_ condition: Compiled, _ values: [HistoryValue]) -> RowVerdict {
        if let index = values.firstIndex(where: { $0.byteCount > Self.mostBytes }) {
            return .failed(
                "\"\(condition.columns[index])\" has \(values[index].byteCount) bytes; conditions look at \(Self.mostBytes) at most."
            )
        }
        guardian.begin(.evaluates)
        do {
            try run("DELETE FROM row")
            try run(condition.insert, values)
            let isTrue = try isTrue(condition.result)
            // SQLite calls its progress handler only in loops.
            if guardian.isOver { return Self.tookTooLong }
            return isTrue ? .wanted : .unwanted
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            return Self.tookTooLong
        } catch {
            return .failed("\(Self.text(of: error)).")
        }
    }

    static let tookTooLong = RowVerdict.failed("It took longer than \(mostTime.milliseconds) ms for one row.")

    // MARK: Statements

    private func run(_ sql: String, _ values: [HistoryValue] = []) throws {
        try withStatement(sql) { statement in
            statement.bind(values)
            let result = sqlite3_step(statement)
            guard result == SQLITE_DONE || result == SQLITE_ROW else {
                throw DatabaseError(lastOf: statement, result)
            }
        }
    }

    private func isTrue(_ sql: String) throws -> Bool {
        try withStatement(sql) { statement in
            let result = sqlite3_step(statement)
            guard result == SQLITE_ROW else { throw DatabaseError(lastOf: statement, result) }
            return sqlite3_column_int(statement, 0) != 0
        }
    }

    private func withStatement<T>(_ sql: String, _ body: (OpaquePointer) throws -> T) throws -> T {
        let statement = try prepared(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        return try body(statement)
    }

    private func prepared(_ sql: String) throws -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        let result = sqlite3_prepare_v3(db, sql, -1, 0, &statement, nil)
        guard result == SQLITE_OK, let statement else {
            throw DatabaseError(
                resultCode: ResultCode(rawValue: result), message: String(cString: sqlite3_errmsg(db)))
        }
        statements[sql] = statement
        return statement
    }
}
