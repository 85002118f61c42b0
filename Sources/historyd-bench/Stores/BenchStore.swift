import PersistentHistory

/// A store with one table, as the benchmarks write to it.
enum BenchStore {
    enum Journal: String {
        case wal, delete
    }

    static let table = "item"
    static let writer = "Writer"
    static let reader = "Reader"
    static let insert =
        "INSERT INTO item VALUES (?1, 'name of ' || ?1, 'a text of some length, as texts are', ?1)"

    /// - Parameter tracked: Whether its changes are recorded; deleted rows' names are preserved.
    static func make(_ path: String, _ journal: Journal = .wal, tracked: Bool = true) throws {
        let connection = try Connection(path)
        try connection.execute(
            """
            PRAGMA journal_mode = \(journal.rawValue);
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, quantity INTEGER NOT NULL);
            """)
        if tracked { try Tracking.track(path, [table: ["name"]]) }
    }
}

/// Makes transactions as a declared author, each row with the next key.
final class StoreWriter {
    private let connection: Connection
    private let insert: Statement
    private let begin: Statement
    private let end: Statement
    private(set) var last: Int64

    init(_ path: String, synchronous: String) throws {
        connection = try Connection(path)
        connection.waitForLocks(milliseconds: 10_000)
        try connection.execute("PRAGMA synchronous = \(synchronous)")
        try connection.declareAuthor(BenchStore.writer)
        insert = try Statement(connection, BenchStore.insert)
        begin = try Statement(connection, "BEGIN")
        end = try Statement(connection, "COMMIT")
        last = try connection.number("SELECT max(id) FROM item")
    }

    /// Inserts a row and commits; when the commit was done.
    func commit() throws -> Int64 {
        last += 1
        try insert.run(last)
        return Clock.now
    }

    /// Inserts rows in one transaction.
    func commit(rows: Int) throws -> Int64 {
        guard rows > 1 else { return try commit() }
        try begin.run()
        for _ in 0..<rows {
            last += 1
            try insert.run(last)
        }
        try end.run()
        return Clock.now
    }
}
