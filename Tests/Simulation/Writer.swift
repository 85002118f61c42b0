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

    fileprivate static func line(from descriptor: Int32) -> String? {
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
            csimulation_forget_sleep()
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
    private var migrations: [String: MigratingProcess] = [:]
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
        case "close", "letGo":
            guard holds[path] == nil, readers[path] == nil else { return "busy" }
            connections = connections.filter { !$0.key.hasPrefix(path) }
            // The last commits stay in the log if the daemon has the store open.
            if words[0] == "close" { return "ok" }
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
        case "row": return try "ok\t" + Self.row(path, words[2], words[3])
        default:
            guard let change = SchemaChange(rawValue: words[0]) else { return "failed\tunknown order" }
            return try alter(path, change)
        }
    }

    @discardableResult
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
            var isWhole = true
            try db.inTransaction(.immediate) {
                try Self.make(change, row, db, isOwn: author.hasPrefix("Copy"))
                after = try Self.newest(db)
                isWhole = try Self.isWhole(change, after: before, db)
                return .commit
            }
            return after > before && isWhole ? after : nil
        }
        return position.map { "ok\t\($0)" } ?? "none"
    }

    /// Whether all of it was recorded: some tables may have no triggers for a while.
    private static func isWhole(_ change: Change, after position: Int64, _ db: Database) throws -> Bool {
        let recorded = try String.fetchSet(
            db,
            sql: """
                SELECT DISTINCT e.name || ' ' || (c.kind & 3) FROM historyd_change AS c
                JOIN historyd_entity AS e ON e.shape = c.kind >> 2 WHERE c.id > ?
                """, arguments: [position])
        let operations = ["insert": 0, "update": 1, "delete": 2]
        return change.groups.allSatisfy { recorded.contains("\($0.entity) \(operations[$0.operation] ?? 3)") }
    }

    private static func newest(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change") ?? 0
    }

    /// - Parameter isOwn: Whether the rows are those that consumers with copies have for themselves.
    private static func make(_ change: Change, _ row: Int, _ db: Database, isOwn: Bool = false) throws {
        let people = isOwn ? "id >= \(ownPeople)" : "id < \(ownPeople)"
        func insertPerson(_ name: String, _ age: Int) throws {
            try db.execute(
                sql: """
                    INSERT INTO person (id, name, age)
                    SELECT coalesce(max(id), \(isOwn ? ownPeople : 0)) + 1, ?, ? FROM person WHERE \(people)
                    """, arguments: [name, age])
        }
        switch change {
        case .insertPerson: try insertPerson("p\(row)", row)
        case .insertItem:
            try db.execute(
                sql: "INSERT INTO item VALUES (?, ?)", arguments: [(isOwn ? "own" : "i") + "\(row)", 1.5])
        case .updatePerson:
            try db.execute(
                sql: "UPDATE person SET age = age + 1 WHERE id = (SELECT max(id) FROM person WHERE \(people))")
        case .deletePerson:
            try db.execute(
                sql: "DELETE FROM person WHERE id = (SELECT min(id) FROM person WHERE \(people))")
        case .both:
            for part in [Change.insertPerson, .insertItem, .updatePerson] {
                try make(part, row, db, isOwn: isOwn)
            }
        case .large: for part in 0..<60 { try insertPerson("p\(row).\(part)", part) }
        case .huge: for part in 0..<600 { try insertPerson("p\(row).\(part)", part) }
        }
    }

    /// From which id on people are a consumer's own.
    private static let ownPeople = 1_000_000

    // MARK: Schemas

    private mutating func alter(_ path: String, _ change: SchemaChange) throws -> String {
        if change == .endsMigration { return migrations.removeValue(forKey: path)?.end() ?? "none" }
        guard migrations[path] == nil else { return "none" }
        switch change {
        case .addsIndex: return try self.change(path, "CREATE INDEX IF NOT EXISTS names ON person (name)")
        case .renamesColumn:
            let columns = try connection(path, "Writer").inDatabase { try $0.columns(in: "item").map(\.name) }
            let (old, new) = columns.contains("price") ? ("price", "cost") : ("cost", "price")
            return try self.change(path, "ALTER TABLE item RENAME COLUMN \(old) TO \(new)")
        case .rebuildsTable: return try self.change(path, Self.rebuild)
        case .migrates, .diesMigrating, .beginsMigration, .endsMigration: return try migrate(path, change)
        }
    }

    fileprivate static let rebuild = """
        CREATE TABLE other (code TEXT PRIMARY KEY, price REAL);
        INSERT INTO other SELECT * FROM item;
        DROP TABLE item;
        ALTER TABLE other RENAME TO item
        """

    private mutating func migrate(_ path: String, _ change: SchemaChange) throws -> String {
        guard holds[path] == nil, readers[path] == nil else { return "busy" }
        // No lock is released while this waits.
        try self.change(path, "SELECT 1")
        connections = connections.filter { !$0.key.hasPrefix(path) }
        guard let process = MigratingProcess(path, dies: change == .diesMigrating) else { return "failed" }
        if process.begins != "ok" || change != .beginsMigration { return process.end() }
        migrations[path] = process
        return "ok"
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

    /// The tables' rows, for comparing, without those that consumers with copies have for themselves.
    private static func digest(_ path: String) throws -> String {
        try reading(path) { db in
            try ["person WHERE id < \(ownPeople)", "item WHERE code NOT LIKE 'own%'"].map { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1").map(text).joined(separator: ";")
            }.joined(separator: "|")
        }
    }

    /// The row with a key; empty if there is none, or it is such a one.
    private static func row(_ path: String, _ entity: String, _ key: String) throws -> String {
        try reading(path) { db in
            let condition =
                entity == "person" ? "id = ? AND id < \(ownPeople)" : "code = ? AND code NOT LIKE 'own%'"
            return try Row.fetchOne(db, sql: "SELECT * FROM \(entity) WHERE \(condition)", arguments: [key])
                .map(text) ?? ""
        }
    }

    private static func text(_ row: Row) -> String {
        row.databaseValues.map { "\($0)" }.joined(separator: ",")
    }

    private static func reading<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }  // Nothing was written.
        return try queue.inDatabase(body)
    }
}

/// A process that migrates a store: SQLite's locks are a process's, and it has none of the store's yet.
private struct MigratingProcess {
    private let process: pid_t
    private let orders: Int32
    private let answers: Int32
    /// `ok` once the triggers are gone.
    let begins: String

    /// - Parameter dies: Whether it ends before it has put the triggers back.
    init?(_ path: String, dies: Bool) {
        var (orders, answers): ([Int32], [Int32]) = ([0, 0], [0, 0])
        guard pipe(&orders) == 0, pipe(&answers) == 0 else { return nil }
        process = csimulation_fork()
        if process == 0 {
            close(orders[1])
            close(answers[0])
            Self.migrate(path, dies: dies, orders[0], answers[1])
        }
        close(orders[0])
        close(answers[1])
        (self.orders, self.answers) = (orders[1], answers[0])
        begins = Writer.line(from: answers[0]) ?? "failed"
    }

    func end() -> String {
        // Processes that were forked since then have this end of the pipe, too: closing it would end nothing.
        var word = Array("end\n".utf8)
        _ = csimulation_write_all(orders, &word, word.count)
        close(orders)
        let outcome = Writer.line(from: answers) ?? begins
        close(answers)
        var signal: Int32 = 0
        return csimulation_wait(process, &signal) == 0 ? outcome : "failed"
    }

    private static func migrate(_ path: String, dies: Bool, _ orders: Int32, _ answers: Int32) -> Never {
        func say(_ text: String) {
            var bytes = Array("\(text.replacing("\n", with: " "))\n".utf8)
            _ = csimulation_write_all(answers, &bytes, bytes.count)
        }
        do {
            let migration = try Migration(path)
            say("ok")
            _ = Writer.line(from: orders)
            try DatabaseQueue(path: path).inDatabase { db in
                try db.inTransaction(.immediate) {
                    try db.execute(sql: WriterDesk.rebuild)
                    return .commit
                }
            }
            if !dies { _ = try migration.end() }
            withExtendedLifetime(migration) { say("ok") }
        } catch {
            say("busy \(error)")
        }
        csimulation_exit(0)
    }
}
