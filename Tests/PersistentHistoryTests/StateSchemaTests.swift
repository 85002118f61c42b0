import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// State files of this version and of others.
@Suite struct StateSchemaTests {
    private static let store = StoreID.sample()

    private let folder: TemporaryFolder
    private var path: String { StateDatabase.path(folder: folder.path, store: Self.store) }

    init() throws { folder = try TemporaryFolder() }

    private func write(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL; " + sql) }
        try queue.close()
    }

    private func withState<T>(_ body: (StateDatabase) throws -> T) throws -> T {
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        defer { try? state.close() }
        return try body(state)
    }

    @Test("Numbers of dead letters that were dropped are not given again")
    func deadLetterNumbers() throws {
        func letter() -> DeadLetter {
            DeadLetter(
                consumer: "Main", hook: "p/h", delivery: "d", method: .observe, reason: "", attempts: 1,
                call: "{}", keptAt: .now)
        }
        try withState { state in
            try state.deadLetters.keep(letter())
            #expect(try state.deadLetters.drop(1))
            try state.deadLetters.keep(letter())
            #expect(try state.deadLetters.all().map(\.number) == [2])
        }
    }

    @Test("A state of a newer version is refused and left as it is")
    func newer() throws {
        try withState { try $0.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main") }
        try write("PRAGMA user_version = \(StateSchema.version + 1)")
        let error = #expect(throws: HistoryError.self) { try withState { _ in } }
        #expect(error?.code == .stateUnusable)
        #expect(error?.message.contains("newer program") == true)
        try write("PRAGMA user_version = \(StateSchema.version)")
        #expect(try withState { try $0.cursors.checkpoint(of: "Main")?.position } == 3)
    }

    @Test("Tables in the way of the state's are an error, and left as they are")
    func tablesInTheWay() throws {
        try write("CREATE TABLE service (a); INSERT INTO service VALUES (7)")
        let error = #expect(throws: HistoryError.self) { try withState { _ in } }
        #expect(error?.code == .stateUnusable)
        #expect(
            try GatekeeperStore.read(path) { db in
                try Int.fetchAll(db, sql: "SELECT a FROM service")
                    + Int.fetchAll(db, sql: "SELECT count(*) FROM sqlite_schema")
            } == [7, 1])
    }
}
