import CSimulation
import GRDB
import GRDBSQLite
import Glibc
import PersistentHistory

/// The process of all other programs: it writes, reads and holds locks, as the script orders, one thing at a time.
///
/// It is a process of its own, for locks are between processes.
struct Writer: Sendable {
    let orders: Int32
    let answers: Int32

    /// Has it do something, and waits for that.
    ///
    /// - Returns: The answer's fields; the first is `ok`, `busy`, `none` or `failed`.
    func order(_ words: String...) -> [String] {
        var bytes = Array((words.joined(separator: "\t") + "\n").utf8)
        guard csimulation_write_all(orders, &bytes, bytes.count), let line = Self.line(from: answers) else {
            return ["failed", "The writer has ended."]
        }
        return line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
    }

    private static func line(from descriptor: Int32) -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while csimulation_read(descriptor, &byte, 1) == 1 {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }

    /// Obeys until there are no more orders.
    static func obey(orders: Int32, answers: Int32) {
        // While SQLite sleeps here, no time passes in the simulation, and nobody lets go of a lock.
        sqlite3_vfs_find(nil)?.pointee.xSleep = { _, microseconds in microseconds }
        var desk = WriterDesk()
        while let line = line(from: orders) {
            let answer = desk.obey(
                line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init))
            var bytes = Array((answer.replacing("\n", with: " ") + "\n").utf8)
            guard csimulation_write_all(answers, &bytes, bytes.count) else { return }
        }
    }
}

/// What the writer has open.
private struct WriterDesk {
    private var connections: [String: DatabaseQueue] = [:]
    private var holds: [String: DatabaseQueue] = [:]
    private var readers: [String: DatabaseQueue] = [:]
    private var rows = 0

    mutating func obey(_ words: [String]) -> String {
        do {
            return try carryOut(words)
        } catch let error as DatabaseError
            where error.resultCode == .SQLITE_BUSY || error.resultCode == .SQLITE_LOCKED
        {
            return "busy"
        } catch {
            return "failed\t\(error)"
        }
    }

    private mutating func carryOut(_ words: [String]) throws -> String {
        let path = words[1]
        switch words[0] {
        case "commit":
            return try commit(path, words[2], Change(rawValue: words[3]) ?? .insertPerson)
        case "tear": return try tear(path, Int32(words[2]) ?? 1)
        case "hold":
            guard holds[path] == nil else { return "none" }
            connections = connections.filter { !$0.key.hasPrefix(path) }
            let queue = try DatabaseQueue(path: path, configuration: Self.unfinished)
            try queue.inDatabase { db in
                let isExclusive = words[2] == "true"
                if isExclusive { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
                try db.execute(sql: isExclusive ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE")
            }
            holds[path] = queue
            return "ok"
        case "letGo":
            guard holds[path] == nil, readers[path] == nil else { return "busy" }
            connections = connections.filter { !$0.key.hasPrefix(path) }
            let queue = try DatabaseQueue(path: path)
            let isMoved = try queue.inDatabase { db in
                // None in a rollback journal's modes.
                let row = try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
                return row?[0] == 0
            }
            try queue.close()
            return isMoved ? "ok" : "busy"
        case "backUp":
            let backup = try DatabaseQueue(path: path + ".backup")
            defer { try? backup.close() }  // A copy by SQLite itself is whole.
            try connection(path, "Writer").backup(to: backup)
            return "ok\t" + String(try backup.inDatabase(Self.newest))
        case "restore": return try restore(path, inPlace: words[2] == "true")
        case "release": return try end(holds.removeValue(forKey: path))
        case "read":
            guard readers[path] == nil else { return "none" }
            var configuration = Self.unfinished
            configuration.readonly = true
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.inDatabase { db in
                try db.execute(sql: "BEGIN")
                _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema")
            }
            readers[path] = queue
            return "ok"
        case "endRead": return try end(readers.removeValue(forKey: path))
        case "alter":
            rows += 1
            let column = "extra\(rows)"
            try connection(path, "Writer").inDatabase {
                try $0.execute(sql: "ALTER TABLE person ADD COLUMN \(column)")
            }
            return "ok"
        case "dropTable": return try change(path, "DROP TABLE item")
        case "makeTable":
            return try change(path, "CREATE TABLE IF NOT EXISTS item (code TEXT PRIMARY KEY, price REAL)")
        case "ignoreRows":
            return try change(
                path,
                """
                CREATE TRIGGER IF NOT EXISTS ignores BEFORE INSERT ON person WHEN new.age = 7
                BEGIN SELECT RAISE(IGNORE); END
                """)
        case "dropTriggers", "loseHistory":
            let kind = words[0] == "loseHistory" ? "table" : "trigger"
            let names = try connection(path, "Writer").inDatabase { db in
                try String.fetchAll(
                    db,
                    sql: """
                        SELECT name FROM sqlite_schema WHERE type = ? AND name LIKE 'historyd%'
                        AND (type = 'table' OR tbl_name = 'person')
                        """, arguments: [kind])
            }
            return try change(path, names.map { "DROP \(kind) \"\($0)\"" }.joined(separator: ";"))
        case "rows": return try "ok\t" + Self.digest(path)
        default: return "failed\tunknown order"
        }
    }

    private mutating func change(_ path: String, _ script: String) throws -> String {
        try connection(path, "Writer").inDatabase { db in
            try db.inTransaction(.immediate) {
                try db.execute(sql: script)
                return .commit
            }
        }
        return "ok"
    }

    /// For connections that stay within a transaction.
    private static var unfinished: Configuration {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return configuration
    }

    private func end(_ queue: DatabaseQueue?) throws -> String {
        guard let queue else { return "none" }
        try queue.inDatabase { if $0.isInsideTransaction { try $0.execute(sql: "ROLLBACK") } }
        try queue.close()
        return "ok"
    }

    private mutating func connection(_ path: String, _ author: String) throws -> DatabaseQueue {
        let key = path + "\t" + author
        if let queue = connections[key] { return queue }
        let queue = try DatabaseQueue(path: path, author: author)
        connections[key] = queue
        return queue
    }

    /// - Returns: `ok` with the position of the transaction; `none` if nothing was changed.
    private mutating func commit(_ path: String, _ author: String, _ change: Change) throws -> String {
        let queue = try connection(path, author)
        rows += 1
        let row = rows
        let position = try queue.inDatabase { db in
            let before = try Self.newest(db)
            var after = before
            try db.inTransaction(.immediate) {
                try Self.make(change, row, db)
                after = try Self.newest(db)
                return .commit
            }
            return after > before ? after : nil
        }
        return position.map { "ok\t\($0)" } ?? "none"
    }

    private static func newest(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change") ?? 0
    }

    private static func make(_ change: Change, _ row: Int, _ db: Database) throws {
        switch change {
        case .insertPerson:
            try db.execute(sql: "INSERT INTO person (name, age) VALUES (?, ?)", arguments: ["p\(row)", row])
        case .insertItem:
            try db.execute(sql: "INSERT INTO item VALUES (?, ?)", arguments: ["i\(row)", 1.5])
        case .updatePerson:
            try db.execute(sql: "UPDATE person SET age = age + 1 WHERE id = (SELECT max(id) FROM person)")
        case .deletePerson:
            try db.execute(sql: "DELETE FROM person WHERE id = (SELECT min(id) FROM person)")
        case .both:
            try make(.insertPerson, row, db)
            try make(.insertItem, row, db)
            try make(.updatePerson, row, db)
        case .large:
            for part in 0..<60 {
                try db.execute(
                    sql: "INSERT INTO person (name, age) VALUES (?, ?)", arguments: ["p\(row).\(part)", part])
            }
        }
    }

    /// As the page StoreIdentity says it.
    private mutating func restore(_ path: String, inPlace: Bool) throws -> String {
        let source = path + ".backup"
        guard access(source, F_OK) == 0 else { return "none" }
        guard holds[path] == nil, readers[path] == nil else { return "busy" }
        let backup = try DatabaseQueue(path: source)
        defer { try? backup.close() }  // It was read alone.
        let newest = try backup.inDatabase(Self.newest)
        if inPlace {
            try backup.backup(to: connection(path, "Writer"))
        } else {
            connections = connections.filter { !$0.key.hasPrefix(path) }
            let coming = try DatabaseQueue(path: path + ".coming")
            try backup.backup(to: coming)
            try coming.close()
            for side in ["-wal", "-shm"] { unlink(path + side) }
            guard rename(path + ".coming", path) == 0 else { return "failed" }
        }
        return "ok\t\(newest)"
    }

    /// A process that is killed while it commits.
    private mutating func tear(_ path: String, _ write: Int32) throws -> String {
        connections = [:]
        let before = try DatabaseQueue(path: path).inDatabase { try Self.newest($0) }
        rows += 1
        let process = csimulation_fork()
        if process == 0 {
            csimulation_kill_at_write(write)
            let other = try? DatabaseQueue(path: path, author: "Torn")
            try? other?.write { try Self.make(.both, rows, $0) }
            csimulation_exit(0)
        }
        var signal: Int32 = 0
        _ = csimulation_wait(process, &signal)
        let after = try DatabaseQueue(path: path).inDatabase { try Self.newest($0) }
        return after > before ? "ok\t\(after)" : "none"
    }

    /// The tables' rows, for comparing.
    private static func digest(_ path: String) throws -> String {
        try DatabaseQueue(path: path).inDatabase { db in
            try ["person", "item"].map { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1").map { row in
                    row.databaseValues.map { "\($0)" }.joined(separator: ",")
                }.joined(separator: ";")
            }.joined(separator: "|")
        }
    }
}
