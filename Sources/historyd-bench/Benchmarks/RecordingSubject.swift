import Glibc
import PersistentHistory

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
        case .declared, .undeclared: try Tracking.track(path, ["item": ["c3"]])
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
