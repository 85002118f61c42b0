/// A store that is written to, with its one connection.
final class RecordingSubject {
    enum Kind: String, CaseIterable {
        /// The baseline, and so the first.
        case untracked
        case declared = "declared author"
        case undeclared = "undeclared"
    }

    /// Rows that are there before and after.
    private static let settled: Int64 = 20_000

    private let connection: Connection
    private let insert: Statement
    private let update: Statement
    private let delete: Statement

    init(_ kind: Kind, in path: String, synchronous: String) throws {
        try BenchStore.make(path, tracked: kind != .untracked)
        connection = try Connection(path)
        try connection.execute("PRAGMA synchronous = \(synchronous)")
        if kind == .declared { try connection.declareAuthor(BenchStore.writer) }
        insert = try Statement(connection, BenchStore.insert)
        update = try Statement(connection, "UPDATE item SET quantity = quantity + 1 WHERE id = ?1")
        delete = try Statement(connection, "DELETE FROM item WHERE id = ?1")
        try inTransaction {
            for id in 1...Self.settled { try insert.run(id) }
        }
    }

    /// Microseconds a row.
    func time(_ kind: WriteKind, rows: Int) throws -> Double {
        let ids = (Self.settled + 1)...(Self.settled + Int64(rows))
        let begin = Clock.now
        switch kind {
        case .insert: for id in ids { try insert.run(id) }
        case .update: for id in ids { try update.run(id) }
        case .delete: for id in ids { try delete.run(id) }
        case .unprepared: for id in ids { try connection.execute(Self.sql(id)) }
        case .bulkInsert: try inTransaction { for id in ids { try insert.run(id) } }
        case .bulkUpdate:
            try connection.execute("UPDATE item SET quantity = quantity + 1 WHERE id > \(Self.settled)")
        case .bulkDelete: try connection.execute("DELETE FROM item WHERE id > \(Self.settled)")
        }
        let time = Double(Clock.now - begin) / 1000 / Double(rows)
        if kind == .unprepared { try connection.execute("DELETE FROM item WHERE id > \(Self.settled)") }
        return time
    }

    private static func sql(_ id: Int64) -> String {
        "INSERT INTO item VALUES (\(id), 'name of \(id)', 'a text of some length, as texts are', \(id))"
    }

    private func inTransaction(_ body: () throws -> Void) throws {
        try connection.execute("BEGIN")
        try body()
        try connection.execute("COMMIT")
    }
}
