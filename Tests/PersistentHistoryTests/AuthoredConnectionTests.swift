import GRDB
import PersistentHistory
import TestSupport
import Testing

/// A program's own GRDB connections, opened as an author.
@Suite(.timeLimit(.minutes(60))) struct AuthoredConnectionTests {
    private func origins(_ store: TrackedStore) throws -> [String] {
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        return try reader.batch(after: 0).transactions.map {
            "\($0.author ?? "-") \($0.context ?? "-") \($0.changes.count)"
        }
    }

    @Test func aQueueAndAPoolWriteUnderTheirNames() async throws {
        let store = try TrackedStore()
        let queue = try DatabaseQueue(path: store.path, author: "MainApp", context: "editor")
        let pool = try DatabasePool(path: store.path, author: "Widget")
        try await queue.write { try $0.execute(sql: "INSERT INTO person (id) VALUES (1), (2)") }
        try await pool.write { try $0.execute(sql: "INSERT INTO person (id) VALUES (3)") }
        // The pool's writer stays declared, and its readers read.
        #expect(try await pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM person") } == 3)
        try await pool.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM person WHERE id = 1") }
        try queue.close()
        try pool.close()
        #expect(try origins(store) == ["MainApp editor 2", "Widget - 1", "Widget - 1"])
    }

    @Test func whatIsPreparedOtherwiseStays() throws {
        let store = try TrackedStore()
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA temp_store = MEMORY") }
        let queue = try DatabaseQueue(path: store.path, author: "MainApp", configuration: configuration)
        #expect(try queue.read { try Int.fetchOne($0, sql: "PRAGMA temp_store") } == 2)
        try queue.close()
    }

    @Test func aNameThatCannotBeIsRefused() throws {
        let store = try TrackedStore()
        #expect(throws: (any Error).self) { try DatabaseQueue(path: store.path, author: "") }
    }
}
