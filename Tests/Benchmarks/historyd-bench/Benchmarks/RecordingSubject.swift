import Glibc

/// A store with its only connection, which writes.
final class RecordingSubject {
    enum Kind: String, CaseIterable {
        /// The baseline, and so the first.
        case untracked
        case floor = "triggers of constants"
        case handWritten = "triggers as one writes them by hand"
        case declared = "declared author"
        case undeclared = "undeclared"
    }

    /// Elapsed time, and processor time including the kernel's.
    struct Time {
        let wall: Double
        let processor: Double
    }

    private let connection: Connection
    private let table: RecordedTable
    private let insert: Statement
    private let updateOne: Statement
    private let updateAll: Statement
    private let delete: Statement
    /// Rows that are there before and after.
    private let settled: Int64

    init(_ kind: Kind, _ table: RecordedTable, in path: String, synchronous: String) throws {
        self.table = table
        settled = table.columns > 100 ? 2000 : 20_000
        connection = try Connection(path)
        try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous)")
        try connection.execute(table.create)
        switch kind {
        case .untracked: break
        case .floor: try connection.execute(RecordedTable.floor)
        case .handWritten: try connection.execute(RecordedTable.handWritten)
        case .declared, .undeclared: try BenchStore.track(path, preserving: "c3")
        }
        if kind == .declared { try connection.declareAuthor(BenchStore.writer) }
        insert = try Statement(connection, table.insert)
        updateOne = try Statement(connection, table.updateOne + " WHERE id = ?1")
        updateAll = try Statement(connection, table.updateAll + " WHERE id = ?1")
        delete = try Statement(connection, table.delete + " WHERE id = ?1")
        try inTransaction {
            for id in 1...settled { try insert.run(id) }
        }
    }

    /// Microseconds a row.
    func time(_ kind: WriteKind, rows: Int) throws -> Time {
        let ids = (settled + 1)...(settled + Int64(rows))
        let new = " WHERE id > \(settled)"
        let begin = (wall: Clock.now, processor: Self.processorTime)
        switch kind {
        case .insert: for id in ids { try insert.run(id) }
        case .updateOne: for id in ids { try updateOne.run(id) }
        case .updateAll: for id in ids { try updateAll.run(id) }
        case .delete: for id in ids { try delete.run(id) }
        case .unprepared:
            for id in ids {
                try connection.execute(table.insert.split(separator: "?1").joined(separator: String(id)))
            }
        case .bulkInsert: try inTransaction { for id in ids { try insert.run(id) } }
        case .bulkUpdateOne: try connection.execute(table.updateOne + new)
        case .bulkUpdateAll: try connection.execute(table.updateAll + new)
        case .bulkDelete: try connection.execute(table.delete + new)
        }
        let scale = 1000 * Double(rows)
        let time = Time(
            wall: Double(Clock.now - begin.wall) / scale,
            processor: Double(Self.processorTime - begin.processor) / scale)
        if kind == .unprepared { try connection.execute(table.delete + new) }
        return time
    }

    /// Nanoseconds.
    private static var processorTime: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private func inTransaction(_ body: () throws -> Void) throws {
        try connection.execute("BEGIN")
        try body()
        try connection.execute("COMMIT")
    }
}

/// In this order: each finds the rows that it needs, and leaves the table as it was.
enum WriteKind: String {
    case insert
    case updateOne = "update of one column"
    case updateAll = "update of all columns"
    case delete
    /// Prepared each time, which compiles the triggers as well.
    case unprepared = "insert, not prepared"
    case bulkInsert = "inserts"
    case bulkUpdateOne = "one update of one column"
    case bulkUpdateAll = "one update of all columns"
    case bulkDelete = "one delete"

    static let single = [insert, updateOne, updateAll, delete, unprepared]
    static let bulk = [bulkInsert, bulkUpdateOne, bulkUpdateAll, bulkDelete]
}

/// A table of so many columns, and the statements that write one row of it.
struct RecordedTable {
    let columns: Int
    private let names: [String]

    init(columns: Int) {
        self.columns = columns
        names = (2...columns).map { "c\($0)" }
    }

    /// Every other column is a number, the others are short texts.
    private func isNumber(_ index: Int) -> Bool { index.isMultiple(of: 2) }

    var create: String {
        let list = names.enumerated().map { "\($1) \(isNumber($0) ? "INTEGER" : "TEXT") NOT NULL" }
        return "CREATE TABLE item (id INTEGER PRIMARY KEY, \(list.joined(separator: ", ")))"
    }

    /// With the row's key for ?1, as in all that follow.
    var insert: String {
        let values = names.indices.map { isNumber($0) ? "?1 + \($0)" : "'text \($0) of a row'" }
        return "INSERT INTO item VALUES (?1, \(values.joined(separator: ", ")))"
    }

    var delete: String { "DELETE FROM item" }

    var updateOne: String { "UPDATE item SET \(assignment(0))" }

    var updateAll: String { "UPDATE item SET \(names.indices.map(assignment).joined(separator: ", "))" }

    /// Another value than before, each time.
    private func assignment(_ index: Int) -> String {
        let name = names[index]
        return isNumber(index)
            ? "\(name) = \(name) + 1" : "\(name) = CASE \(name) WHEN 'one' THEN 'two' ELSE 'one' END"
    }

    /// The minimum that recording by triggers costs: for each kind of write, one trigger that inserts one row of
    /// constants.
    static let floor = """
        CREATE TABLE log (id INTEGER PRIMARY KEY, origin, kind INTEGER, object, detail);
        CREATE TRIGGER inserted AFTER INSERT ON item BEGIN \(log(4)); END;
        CREATE TRIGGER updated AFTER UPDATE ON item BEGIN \(log(5)); END;
        CREATE TRIGGER deleted AFTER DELETE ON item BEGIN \(log(6)); END;
        """

    /// A hand-written log of changes, which the aims compare to: the table, the operation, the row and the time.
    static let handWritten = """
        CREATE TABLE log (
            id INTEGER PRIMARY KEY AUTOINCREMENT, entity TEXT NOT NULL, operation TEXT NOT NULL, object INTEGER NOT NULL,
            at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));
        CREATE TRIGGER inserted AFTER INSERT ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'insert', NEW.id); END;
        CREATE TRIGGER updated AFTER UPDATE ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'update', NEW.id); END;
        CREATE TRIGGER deleted AFTER DELETE ON item BEGIN
            INSERT INTO log (entity, operation, object) VALUES ('item', 'delete', OLD.id); END;
        """

    private static func log(_ kind: Int) -> String {
        "INSERT INTO log (origin, kind, object, detail) VALUES ('5d1b7a90.1f4\t4711\t1767225600000\tWriter', \(kind), 5000000, 2)"
    }
}
