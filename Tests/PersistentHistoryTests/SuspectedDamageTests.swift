import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A store is called damaged only where SQLite's check ran and found damage.
@Suite struct SuspectedDamageTests {
    private static let newer = SuspectedDamage.own + 14_000
    private static let checks: [SuspectedDamage.Check] = [.isSound, .found("row 1 missing"), .didNotRun]

    @Test(
        "To restore is advised only after a check, and a newer writer is named", arguments: checks,
        [newer, 3_000_000, 0])
    func advice(check: SuspectedDamage.Check, writer: Int32) {
        let error = SuspectedDamage(said: "malformed", writer: writer, check: check).error("s.sqlite")
        #expect("\(error)".contains("malformed"))
        #expect("\(error)".lowercased().contains("restore") == (check == .found("row 1 missing")))
        #expect("\(error)".contains("is damaged:") == (check == .found("row 1 missing")))
        #expect("\(error)".contains(SuspectedDamage.version(Self.newer)) == (writer == Self.newer))
        #expect((error.code == .storeTooNew) == (writer == Self.newer && check == .didNotRun))
        #expect("\(error)".contains("integrity_check"))
    }

    @Test func versions() { #expect(SuspectedDamage.version(3_040_001) == "3.40.1") }

    /// A view that this SQLite cannot parse, as a newer one leaves it.
    private func spoil(_ path: String, mode: String, writer: Int32?) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE VIEW v AS SELECT 1;
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = 'CREATE VIEW v AS SELECT 1_000' WHERE name = 'v';
                    PRAGMA writable_schema = OFF; PRAGMA schema_version = 77
                    """)
        }
        guard let writer else { return queue }
        if mode == "WAL" {
            // The page is in the log alone: so is the version.
            let log = try Data(contentsOf: URL(filePath: path + "-wal"))
            let version = withUnsafeBytes(of: SuspectedDamage.own.bigEndian) { Data($0) }
            #expect(log.range(of: version) != nil)
        } else {
            try queue.close()
            let file = try #require(FileHandle(forUpdatingAtPath: path))
            try file.seek(toOffset: 96)
            try file.write(contentsOf: withUnsafeBytes(of: writer.bigEndian) { Data($0) })
            try file.close()
        }
        return queue
    }

    @Test(
        "What a newer SQLite has written is not called damaged, whatever looks at it", arguments: [newer, nil])
    func newerSchema(writer: Int32?) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        _ = try spoil(path, mode: "DELETE", writer: writer)
        let looks: [(String) throws -> Void] = [
            { _ = try Tracking.track($0, ["t": nil]) }, { _ = try StoreHistory.open($0) },
            { _ = try HistoryReader(path: $0) }, { _ = try Tracking.untrack($0) },
            { _ = try StoreDescription(path: $0) },
        ]
        for look in looks {
            let error = try #require(throws: HistoryError.self) { try look(path) }
            #expect(error.code == (writer == nil ? .storeCorrupt : .storeTooNew))
            #expect("\(error)".contains("malformed database schema (v)"))
            #expect(!"\(error)".lowercased().contains("restore"))
            #expect("\(error)".contains(SuspectedDamage.version(Self.newer)) == (writer != nil))
        }
    }

    @Test("The version is read from the log where the header is there")
    func versionInTheLog() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA page_size = 1024; CREATE TABLE t (x); PRAGMA journal_mode = WAL")
        }
        let file = try #require(FileHandle(forUpdatingAtPath: path))
        try file.seek(toOffset: 96)
        try file.write(contentsOf: Data([0, 0, 0, 9]))
        let cause = DatabaseError(resultCode: .SQLITE_CORRUPT, message: "malformed")
        #expect(SuspectedDamage(cause, of: path, isUntouched: false).writer == 9)
        try queue.write { try $0.execute(sql: "CREATE TABLE u (x)") }
        for isUntouched in [false, true] {
            let damage = SuspectedDamage(cause, of: path, isUntouched: isUntouched)
            #expect(damage.writer == SuspectedDamage.own)
            #expect(damage.check == (isUntouched ? .didNotRun : .isSound))
        }
        // Frames of an earlier log do not count.
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES (1)")
        }
        try file.seek(toOffset: 96)
        try file.write(contentsOf: Data([0, 0, 0, 9]))
        #expect(SuspectedDamage(cause, of: path, isUntouched: false).writer == 9)
        withExtendedLifetime(queue) {}
    }

    @Test("What the check finds is said")
    func damaged() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (x); CREATE INDEX i ON t (x);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i FROM n
                    """)
        }
        let page = try #require(
            try queue.read {
                try Int.fetchOne(
                    $0, sql: "SELECT pageno FROM dbstat WHERE name = 't' AND pagetype = 'leaf' LIMIT 1")
            })
        try queue.close()
        let file = try #require(FileHandle(forUpdatingAtPath: path))
        try file.seek(toOffset: UInt64(page - 1) * 4096)
        try file.write(contentsOf: Data(repeating: 0xaa, count: 4096))
        try file.close()
        let error = try #require(throws: HistoryError.self) {
            try StoreConnection.withConnection(to: path, .read) { queue in
                _ = try queue.read { try Int.fetchOne($0, sql: "SELECT sum(x) FROM t NOT INDEXED") }
            }
        }
        #expect(error.code == .storeCorrupt)
        #expect("\(error)".contains("`PRAGMA integrity_check` finds: "))
        #expect("\(error)".contains("Restore a backup."))
    }
}
