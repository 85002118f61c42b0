/// Makes transactions, each row with the next key.
final class StoreWriter {
    private let connection: Connection
    private let insert: Statement
    private let begin: Statement
    private let end: Statement
    private(set) var last: Int64

    /// - Parameter isDeclared: Whether it has made its author known.
    init(_ path: String, synchronous: String, isDeclared: Bool = true) throws {
        connection = try Connection(path)
        connection.waitForLocks(milliseconds: 10_000)
        try connection.execute("PRAGMA synchronous = \(synchronous)")
        if isDeclared { try connection.declareAuthor(BenchStore.writer) }
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

    /// How long a commit takes, in microseconds.
    func time() throws -> Double {
        let start = Clock.now
        return Double(try commit() - start) / 1000
    }

    /// From one commit to the next, in microseconds.
    static let pace: UInt32 = 2000

    /// How long commits take that come one after the other, with time between them, in which something is done.
    func times(_ count: Int, between: () throws -> Void = {}) throws -> [Double] {
        var times: [Double] = []
        for _ in 0..<count {
            times.append(try time())
            Clock.pause(microseconds: Self.pace)
            try between()
        }
        return times
    }
}
