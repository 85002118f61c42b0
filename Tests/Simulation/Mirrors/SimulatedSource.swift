import CSimulation
import FoundationEssentials
import GRDB
import HistoryMirrors
import PersistentHistory

/// The store that is published, and all that writes to it.
struct SimulatedSource {
    private let files: Files
    private var dice: Dice
    /// Tells the publishers that there is something new.
    private let signal: @Sendable () -> Void
    private var writer: DatabaseQueue?
    /// What it was, for each mirror.
    private(set) var truths = [MirrorTruth(nil), MirrorTruth(MirrorPrograms.chosen)]
    /// The same when the backup was made.
    private var saved: [MirrorTruth] = []
    private var schema = 0

    init(_ files: Files, _ dice: Dice, _ signal: @escaping @Sendable () -> Void) {
        (self.files, self.dice, self.signal) = (files, dice, signal)
    }

    /// The number of its last change.
    mutating func end() throws -> Int64 {
        try change { try Int64.fetchOne($0, sql: "SELECT max(id) FROM historyd_change") ?? 0 }
    }

    /// Makes it.
    mutating func begin() throws {
        let mode = dice.isTrue(3, of: 4) ? "WAL" : "DELETE"
        try change { db in
            try db.execute(
                sql: """
                    PRAGMA journal_mode = \(mode);
                    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE);
                    CREATE TABLE note (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID;
                    CREATE TABLE other (k TEXT PRIMARY KEY, v);
                    CREATE INDEX person_name ON person (name);
                    """)
        }
        try track()
        for _ in 0..<dice.number(0...3) { try write() }
    }

    private mutating func change<T>(_ body: (Database) throws -> T) throws -> T {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(20)
        let queue = try writer ?? DatabaseQueue(path: files.source, configuration: configuration)
        writer = queue
        return try queue.inDatabase(body)
    }

    private mutating func track() throws {
        try Tracking.track(files.source, [:], all: true)
        try note()
    }

    /// Notes what the source shows now.
    private mutating func note() throws {
        let reader = try MirrorSource(files.source, spoolingIn: files.folder)
        defer { try? reader.close() }
        let position = try reader.end().position
        var truths = truths
        try change { db in for index in truths.indices { try truths[index].note(db, at: position) } }
        self.truths = truths
    }

    mutating func write() throws {
        let statements = (0..<dice.number(1...3)).map { _ in statement() }.joined(separator: "; ")
        // Each transaction has a time of its own, as on a machine.
        csimulation_sleep(1_100_000)
        try change { db in
            try db.inTransaction(.immediate) {
                try db.execute(sql: statements)
                return .commit
            }
        }
        try note()
        signal()
    }

    private mutating func statement() -> String {
        let n = dice.number(1...9)
        switch dice.number(0...9) {
        case 0, 1: return "INSERT OR REPLACE INTO person (id, name, email) VALUES (\(n), 'name \(n)', \(n % 4))"
        case 2: return "UPDATE OR IGNORE person SET id = id + 1 WHERE id = \(n)"
        case 3: return "DELETE FROM person WHERE id > \(n)"
        case 4: return "INSERT OR REPLACE INTO note (code, n, v) VALUES ('k', \(n), \(dice.number(0...99)))"
        case 5: return "DELETE FROM note WHERE n = \(n)"
        // A snapshot of it has several parts.
        case 6:
            let bytes = dice.number(1...50) * 1000
            return "INSERT OR REPLACE INTO other (k, v) VALUES ('large \(n % 3)', hex(randomblob(\(bytes))))"
        case 7: return "UPDATE person SET name = 'other \(dice.number(0...99))'"
        default: return "INSERT OR REPLACE INTO other (k, v) VALUES ('k\(n)', \(dice.number(0...99)))"
        }
    }

    mutating func alter() throws {
        schema += 1
        let sql =
            switch dice.number(0...5) {
            case 0: "ALTER TABLE note ADD COLUMN c\(schema)"
            case 1: "ALTER TABLE other ADD COLUMN c\(schema)"
            case 2:
                """
                DROP TABLE note; CREATE TABLE note (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID;
                INSERT INTO note VALUES ('unrecorded', \(schema), 1)
                """
            case 3: "CREATE INDEX note_\(schema) ON note (v)"
            case 4: "CREATE TABLE fresh\(schema) (id INTEGER PRIMARY KEY, v)"
            default: "ALTER TABLE other RENAME TO other\(schema); CREATE TABLE other (k TEXT PRIMARY KEY, v)"
            }
        try change { try $0.execute(sql: sql) }
        try note()
        try track()
        // A schema without a transaction behind it is not published yet.
        try write()
    }

    /// As the daemon cleans what all have received.
    static func clean(_ db: Database, through number: Int64) throws {
        let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change") ?? 0
        let goal = min(number, newest)
        try db.execute(
            sql: """
                DELETE FROM historyd_change WHERE id <= :goal AND id < :newest;
                UPDATE historyd_change SET origin = 0, kind = 3, object = NULL, detail = NULL WHERE id <= :goal;
                INSERT OR REPLACE INTO historyd_store VALUES ('floor', max(:goal, coalesce(
                    (SELECT value FROM historyd_store WHERE key = 'floor'), 0))), ('cleaned', min(:goal, :newest - 1))
                """.replacing(":goal", with: "\(goal)").replacing(":newest", with: "\(newest)"))
    }

    mutating func clean() throws {
        let part = dice.number(1...3)
        let through = try change { db in
            let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change") ?? 0
            let through = newest * Int64(part) / 3
            try db.inTransaction {
                try Self.clean(db, through: through)
                return .commit
            }
            return through
        }
        for index in truths.indices { truths[index].clean(through: through) }
        try note()
    }

    /// - Returns: Whether there was a backup.
    mutating func restore() throws -> Bool {
        guard !saved.isEmpty else { return false }
        do {
            let backup = try DatabaseQueue(path: files.backup)
            defer { try? backup.close() }
            try change { db in try backup.inDatabase { try $0.backup(to: db) } }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return false
        }
        // What it was afterwards may still be in the stream, or in a mirror.
        for index in truths.indices { truths[index].goBack(to: saved[index]) }
        try note()
        signal()
        return true
    }

    mutating func backUp() throws {
        try? FileManager.default.removeItem(atPath: files.backup)
        let backup = try DatabaseQueue(path: files.backup)
        try change { db in try backup.inDatabase { try db.backup(to: $0) } }
        try backup.close()
        saved = truths
    }
}
