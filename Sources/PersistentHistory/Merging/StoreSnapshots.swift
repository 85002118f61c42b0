import GRDB

/// A connection to the store for reading its rows, beside the one that reads its history: a large
/// copy keeps no other consumer waiting.
final class StoreSnapshots {
    private let path: String
    private var queue: DatabaseQueue?
    private var tables = CheckedTables()

    init(_ path: String) { self.path = path }

    /// Runs a body in one read transaction.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        let queue = try self.queue ?? StoreConnection.open(path, .read, timeout: .seconds(1), work: WorkLimit())
        self.queue = queue
        return try HistoryError.translating(path) {
            try StoreConnection.rollingBack(path) {
                try queue.read { db in
                    try tables.check(db)
                    return try body(db)
                }
            }
        }
    }

    func close() {
        // Nothing is written here: a failure to close loses nothing.
        try? queue?.end()
        queue = nil
        tables = CheckedTables()
    }
}
