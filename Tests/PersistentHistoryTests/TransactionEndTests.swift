import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

@Suite("Transactions end, whatever happens in them")
struct TransactionEndTests {
    private struct Failure: Error {}

    /// From the n-th call on, it ends everything that runs.
    private final class Countdown {
        var rest: Int
        init(_ rest: Int) { self.rest = rest }
    }

    private static func store() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let queue = try DatabaseQueue(path: folder.file("store.sqlite"))
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA journal_mode = WAL; CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
                    INSERT INTO person (name) VALUES ('a'), ('b'), ('c');
                    """)
        }
        try queue.close()
        return folder
    }

    private static func count(_ db: Database) throws -> Int? {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM person")
    }

    @Test("An interruption while a statement runs, which would end ROLLBACK as well", arguments: [false, true])
    func interruption(writes: Bool) throws {
        let folder = try Self.store()
        let queue = try StoreConnection.open(folder.file("store.sqlite"), .write)
        func body(_ db: Database) throws {
            if writes { try db.execute(sql: "INSERT INTO person (name) VALUES ('d')") }
            let statement = try db.cachedStatement(sql: "SELECT id FROM person").sqliteStatement
            #expect(sqlite3_step(statement) == SQLITE_ROW)
            // It still runs when the transaction ends.
            sqlite3_interrupt(db.sqliteConnection)
            throw Failure()
        }
        #expect(throws: Failure.self) {
            try writes ? queue.writeInTransaction(body) : queue.readInTransaction(body)
        }
        #expect(try queue.readInTransaction(Self.count) == 3)
        #expect(try queue.writeInTransaction(Self.count) == 3)
        try queue.end()
    }

    @Test("A limit on work that is over at each instruction")
    func limit() throws {
        let folder = try Self.store()
        for instructions in 1..<60 {
            let queue = try StoreConnection.open(folder.file("store.sqlite"), .write)
            let countdown = Countdown(instructions)
            func body(_ db: Database) throws {
                try db.execute(sql: "INSERT INTO person (name) VALUES ('d')")
                _ = try Self.count(db)
                throw Failure()
            }
            queue.writeWithoutTransaction { db in
                sqlite3_progress_handler(
                    db.sqliteConnection, 1,
                    { context in
                        guard let context else { return 0 }
                        let countdown = Unmanaged<Countdown>.fromOpaque(context).takeUnretainedValue()
                        countdown.rest -= 1
                        return countdown.rest < 0 ? 1 : 0
                    }, Unmanaged.passUnretained(countdown).toOpaque())
            }
            #expect(throws: (any Error).self) { try queue.writeInTransaction(body) }
            withExtendedLifetime(countdown) {}
            // A connection on which nothing ends any more was closed; no lock is left either way.
            let other = try StoreConnection.open(folder.file("store.sqlite"), .write, timeout: .zero)
            #expect(try other.writeInTransaction(Self.count) == 3)
            try other.end()
            try queue.end()
        }
    }

    @Test("A transaction that its access leaves open is rolled back, and said")
    func leftOpen() throws {
        let folder = try Self.store()
        let queue = try StoreConnection.open(folder.file("store.sqlite"), .write)
        #expect(throws: HistoryError.self) {
            try queue.writeEndingTransactions { db in
                try db.execute(sql: "BEGIN; INSERT INTO person (name) VALUES ('d')")
            }
        }
        #expect(try queue.readInTransaction(Self.count) == 3)
        try queue.end()
    }
}
