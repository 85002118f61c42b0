internal import GRDB
internal import GRDBSQLite

/// The statement that saves a checkpoint after nearly every commit. GRDB would find it by its text each time.
final class CheckpointStatement: Sendable {
    static let sql = """
        INSERT INTO cursor (consumer, position, fingerprint, moved_at, served) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET position = excluded.position, fingerprint = excluded.fingerprint,
        moved_at = excluded.moved_at, served = excluded.served
        """

    /// It is used only under the lock of its connection.
    nonisolated(unsafe) private let statement: OpaquePointer

    init(_ db: Database) throws {
        var statement: OpaquePointer?
        let result = sqlite3_prepare_v3(
            db.sqliteConnection, Self.sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard result == SQLITE_OK, let statement else { throw DatabaseError(lastOf: db) }
        self.statement = statement
    }

    /// - Throws: `DatabaseError`.
    func save(_ checkpoint: Checkpoint, of consumer: String, served: Duration) throws {
        statement.bind(.text(consumer), 1)
        sqlite3_bind_int64(statement, 2, checkpoint.position)
        statement.bind(checkpoint.fingerprint.map { .text($0) } ?? .null, 3)
        sqlite3_bind_int64(statement, 4, checkpoint.movedAt.milliseconds)
        sqlite3_bind_int64(statement, 5, served.milliseconds)
        let result = sqlite3_step(statement)
        defer { sqlite3_reset(statement) }
        guard result == SQLITE_DONE else { throw DatabaseError(lastOf: statement, result) }
    }

    deinit { sqlite3_finalize(statement) }
}
