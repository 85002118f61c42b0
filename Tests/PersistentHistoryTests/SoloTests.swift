import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Solo transactions on real files, beside connections of SQLite's own VFS.
@Suite(.timeLimit(.minutes(60))) struct SoloTests {
    private final class Store {
        let folder: TemporaryFolder
        let path: String
        let solo: DatabaseQueue
        var entry = SoloEntry()

        init(mode: String = "WAL") throws {
            folder = try TemporaryFolder(inMemory: true)
            path = folder.file("store.sqlite")
            let queue = try DatabaseQueue(path: path)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA journal_mode = \(mode)")
                try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, by TEXT)")
            }
            try queue.close()
            solo = try StoreConnection.open(path, .write, timeout: .zero, work: WorkLimit())
        }

        /// An application's connection, which waits for nothing.
        func application() throws -> Application { try Application(path) }

        /// - Returns: Whether it was written.
        func write(
            wait: Duration = .zero, restartsLog: Bool = true, _ body: () throws -> Void = {}
        ) throws -> Bool {
            try solo.writeWithoutTransaction { db -> Bool in
                let written: Bool? = try entry.transaction(db, wait: wait, restartsLog: restartsLog) { db in
                    try db.execute(sql: "INSERT INTO t (by) VALUES ('solo')")
                    try body()
                    return true
                }
                return written ?? false
            }
        }

        func count() throws -> Int {
            try solo.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM t") } ?? 0
        }

        func isWhole() throws -> Bool {
            try solo.read { db in try String.fetchOne(db, sql: "PRAGMA integrity_check") } == "ok"
        }
    }

    /// Reads and then writes in one deferred transaction, step by step.
    private final class Application {
        private let queue: DatabaseQueue
        private(set) var isReading = false
        private(set) var hasWritten = false

        init(_ path: String) throws {
            var configuration = Configuration()
            configuration.busyMode = .immediateError
            configuration.allowsUnsafeTransactions = true
            queue = try DatabaseQueue(path: path, configuration: configuration)
        }

        func run(_ sql: String) throws {
            try queue.writeWithoutTransaction { db in
                for row in try Row.fetchAll(db, sql: sql) { _ = row }
            }
        }

        func read() throws {
            try run("BEGIN")
            try run("SELECT count(*) FROM t")
            isReading = true
        }

        func write() throws {
            try run("INSERT INTO t (by) VALUES ('application')")
            hasWritten = true
        }

        func end(_ how: String = "COMMIT") throws {
            (isReading, hasWritten) = (false, false)
            try run(how)
        }
    }

    @Test("A transaction in progress is neither made to fail nor waited for by an attempt that only looks")
    func refused() throws {
        let store = try Store()
        let application = try store.application()
        try application.read()
        #expect(try !store.write())
        // A commit in between would refuse this at once (SQLITE_BUSY_SNAPSHOT).
        try application.write()
        #expect(try !store.write())
        try application.end()
        #expect(try store.write())
        #expect(try store.count() == 2)
    }

    @Test("Another connection of this process counts as well")
    func sameProcess() throws {
        let store = try Store()
        let reader = try StoreConnection.open(store.path, .read)
        try reader.readInTransaction { db in
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM t")
            #expect(try !store.write())
        }
        #expect(try store.write())
    }

    @Test(
        "One that begins during a solo transaction waits for its end without a timeout of its own",
        arguments: [true, false])
    func newcomer(writes: Bool) throws {
        let store = try Store()
        let application = try store.application()
        let order = Locked<[String]>([])
        let finished = DispatchSemaphore(value: 0)
        nonisolated(unsafe) let newcomer = application
        let written = try store.write {
            let begins = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                begins.signal()
                do {
                    try newcomer.read()
                    order.withLock { $0.append("application") }
                    if writes { try newcomer.write() }
                    try newcomer.end()
                } catch {
                    order.withLock { $0.append("\(error)") }
                }
                finished.signal()
            }
            begins.wait()
            // Long enough for it to pass, if nothing kept it.
            usleep(30_000)
            order.withLock { $0.append("solo") }
        }
        finished.wait()
        #expect(written)
        #expect(order.withLock { $0 } == ["solo", "application"])
        #expect(try store.count() == (writes ? 2 : 1))
    }

    @Test("An attempt that waits keeps new transactions from beginning, and comes after those in progress")
    func waits() throws {
        let expected = ["first", "solo", "second"]
        var order: [String] = []
        // Nothing says that an attempt waits by now: on a busy machine that takes longer.
        for pause in [20_000, 200_000, 2_000_000] as [UInt32] where order != expected {
            order = try orderOfTransactions(beginningAfter: pause)
            #expect(order.firstIndex(of: "first") ?? 3 < order.firstIndex(of: "solo") ?? 0, "\(order)")
        }
        #expect(order == expected)
    }

    /// One that is in progress, an attempt, and one that begins while that waits.
    private func orderOfTransactions(beginningAfter pause: UInt32) throws -> [String] {
        let store = try Store()
        let (first, second) = (try store.application(), try store.application())
        try first.write()
        try first.read()
        nonisolated(unsafe) let (leaving, coming) = (first, second)
        let order = Locked<[String]>([])
        let finished = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            usleep(pause)
            do {
                // The attempt waits by now: this one begins after it.
                Thread.detachNewThread {
                    do {
                        try coming.read()
                        order.withLock { $0.append("second") }
                        try coming.end()
                    } catch {
                        order.withLock { $0.append("\(error)") }
                    }
                    finished.signal()
                }
                usleep(pause)
                order.withLock { $0.append("first") }
                try leaving.write()
                try leaving.end()
            } catch {
                order.withLock { $0.append("\(error)") }
            }
            finished.signal()
        }
        #expect(try store.write(wait: .seconds(5)) { order.withLock { $0.append("solo") } })
        finished.wait()
        finished.wait()
        return order.withLock { $0 }
    }

    @Test("An application that begins its next transaction at once is met between two of them, and never fails")
    func loop() throws {
        let store = try Store()
        nonisolated(unsafe) let application = try store.application()
        let isOver = Locked(false)
        let problems = Locked<[String]>([])
        let commits = Locked(0)
        let finished = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            while !isOver.withLock({ $0 }) {
                do {
                    try application.read()
                    usleep(1000)
                    try application.write()
                    try application.end()
                    commits.withLock { $0 += 1 }
                } catch {
                    problems.withLock { $0.append("\(error)") }
                    break
                }
            }
            finished.signal()
        }
        var written = 0
        while written < 30, problems.withLock(\.isEmpty) {
            do {
                if try store.write(wait: .milliseconds(20)) { written += 1 }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // Whoever is alone may still be refused, and tries again; an application may not.
            }
        }
        isOver.withLock { $0 = true }
        finished.wait()
        #expect(problems.withLock { $0 } == [])
        #expect(try store.count() == commits.withLock { $0 } + written)
        #expect(try store.isWhole())
    }

    @Test("A connection that stays in an outdated state stands in nobody's way; in the current state it does")
    func staying() throws {
        let store = try Store()
        var time = ContinuousClock.now
        store.entry.now = { time }
        let (reader, writer) = (try store.application(), try store.application())
        try writer.write()
        try reader.read()
        for _ in 0..<3 {
            #expect(try !store.write())
            time += .seconds(1)
        }
        // Another commit makes what it sees outdated.
        try writer.write()
        #expect(try !store.write())
        time += .seconds(1)
        #expect(try !store.write())
        #expect(try store.write())
        #expect(try store.write())
        // The door is shut beside it, too.
        try writer.read()
        #expect(try !store.write())
        try writer.write()
        try writer.end()
        #expect(try store.write())
        try reader.end()
        #expect(try store.isWhole())
    }

    @Test("A transaction that takes long lets others begin", arguments: [true, false])
    func long(hasLog: Bool) throws {
        let store = try Store()
        let (early, late) = (try store.application(), try store.application())
        if hasLog {
            #expect(try store.write())
        } else {
            try early.run("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        let written = try store.solo.writeWithoutTransaction { db in
            try store.entry.transaction(db, wait: .zero) { db in
                try db.execute(sql: "INSERT INTO t (by) VALUES ('solo')")
                usleep(300_000)
                // SQLite asks its progress handler.
                _ = try Int.fetchOne(
                    db,
                    sql: """
                        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                        SELECT count(*) FROM n
                        """)
                // Otherwise they would wait for ten seconds, and fail.
                try early.read()
                try late.read()
                try early.end()
                try db.execute(sql: "INSERT INTO t (by) VALUES ('solo')")
                return true
            }
        }
        #expect(written == true)
        try late.end()
        #expect(try store.write())
        try early.write()
        #expect(try store.count() == (hasLog ? 5 : 4))
        #expect(try store.isWhole())
    }

    @Test("With a rollback journal, the transaction is like any other")
    func rollbackJournal() throws {
        let store = try Store(mode: "DELETE")
        #expect(try store.write())
        let application = try store.application()
        try application.run("BEGIN IMMEDIATE")
        #expect(throws: DatabaseError.self) { try store.write() }
        try application.end("ROLLBACK")
        #expect(try store.write())
    }

    @Test("A failure in the transaction leaves no lock and no change")
    func failure() throws {
        struct Failure: Error {}
        let store = try Store()
        #expect(throws: Failure.self) { try store.write { throw Failure() } }
        let application = try store.application()
        try application.read()
        try application.write()
        try application.end()
        #expect(try store.count() == 1)
    }

    @Test("Where others write, the log is left to them to restart")
    func restart() throws {
        let store = try Store()
        func salt() throws -> Data { try Data(contentsOf: URL(filePath: "\(store.path)-wal"))[16..<24] }
        #expect(try store.write())
        let application = try store.application()
        for restartsLog in [false, true] {
            let before = try salt()
            try application.run("PRAGMA wal_checkpoint(FULL)")
            #expect(try store.write(restartsLog: restartsLog))
            #expect(try (salt() != before) == restartsLog)
        }
        #expect(try store.isWhole())
    }

    @Test(
        "Applications fail by each other alone, whatever comes between their steps", arguments: UInt64(0)..<20)
    func property(number: UInt64) throws {
        var seed = Seed(number)
        let store = try Store()
        var time = ContinuousClock.now
        store.entry.now = { time }
        let applications = try (0..<4).map { _ in try store.application() }
        /// How many commits of applications there were, and as of which each transaction reads.
        var commits = 0
        var seen = [Int](repeating: 0, count: applications.count)
        var rows = 0
        for _ in 0..<300 {
            let index = Int.random(in: 0..<applications.count, using: &seed)
            let application = applications[index]
            switch Int.random(in: 0..<8, using: &seed) {
            case 0, 1:
                let inProgress = applications.indices.filter { applications[$0].isReading }
                let restartsLog = Bool.random(using: &seed)
                time += .milliseconds(400)
                let written = try store.write(restartsLog: restartsLog)
                if written { rows += 1 }
                if inProgress.isEmpty { #expect(written, "\(seed)") }
                if inProgress.contains(where: { seen[$0] == commits }) { #expect(!written, "\(seed)") }
            case 2 where applications.allSatisfy({ !$0.hasWritten }):
                try application.isReading ? () : application.run("PRAGMA wal_checkpoint(PASSIVE)")
            case 3 where applications.allSatisfy({ !$0.isReading }):
                try application.run("PRAGMA wal_checkpoint(TRUNCATE)")
            case _ where !application.isReading:
                try application.read()
                seen[index] = commits
            case _ where application.hasWritten:
                try application.end()
                commits += 1
            default:
                let isAllowed = seen[index] == commits && applications.allSatisfy { !$0.hasWritten }
                do {
                    try application.write()
                    #expect(isAllowed, "\(seed)")
                    rows += 1
                } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                    #expect(!isAllowed, "An application failed by a solo transaction: \(error), \(seed)")
                    try application.end("ROLLBACK")
                }
            }
        }
        for application in applications where application.isReading {
            rows -= application.hasWritten ? 1 : 0
            try application.end("ROLLBACK")
        }
        #expect(try store.count() == rows)
        #expect(try store.isWhole())
    }
}
