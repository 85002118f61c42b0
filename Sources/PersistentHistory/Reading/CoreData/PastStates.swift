import GRDB
import GRDBSQLite

/// The states of a store at rest that its write-ahead log has, each read by SQLite itself.
final class PastStates {
    /// The store as it was after a commit.
    final class State {
        fileprivate let queue: DatabaseQueue
        private var rows: ObjectRows

        fileprivate init(_ queue: DatabaseQueue, _ catalog: CoreDataCatalog) {
            (self.queue, rows) = (queue, ObjectRows(catalog))
        }

        /// Nil if there was no such row, or if it cannot be read for certain.
        func row(_ entity: Int64, _ object: Int64, room: Int) -> ObjectColumns.Row? {
            try? queue.readEndingTransactions { db in rows.row(db, entity, object, room: room) }
        }
    }

    /// The two highest numbers of transactions; 0 stands for none.
    private struct Heads { var newest, previous: Int64 }

    private let file: String
    private let files: StoreFiles
    private let log: LoggedCommits
    private let catalog: CoreDataCatalog
    /// By the index of the commit, the most recently used last.
    private var open: [(index: Int, state: State?)] = []
    private var heads: [Int: Heads?] = [:]
    /// Where the last transaction was found: the next one is usually beside it.
    private var last = 0

    private static let mostOpen = 3

    /// - Parameters:
    ///   - catalog: That of the store's present state.
    /// - Returns: Nil if a process uses the store, or it has no log.
    init?(_ path: String, _ catalog: CoreDataCatalog) throws {
        let file = try StorePath.resolve(path)
        let files = StoreFiles(of: file)
        guard try files.access(to: file) == .still, let log = try LoggedCommits(of: file), log.sizes.count > 1
        else { return nil }
        (self.file, self.files, self.log, self.catalog) = (file, files, log, catalog)
    }

    deinit {
        for case (_, let state?) in open { try? UntouchedConnection.endPast(state.queue, of: file) }
    }

    /// Whether a process has written to the store since, so that nothing that was read is certain.
    var isOutdated: Bool { files.isOutdated(by: StoreFiles(of: file), .still) }

    /// The states just before and after the commit that added a transaction, and no other one.
    func around(_ transaction: Int64) -> (before: State, after: State)? {
        guard let index = commit(of: transaction), let after = heads(at: index),
            let before = heads(at: index - 1),
            after.newest == transaction, after.previous == before.newest, let first = state(index - 1),
            let second = state(index)
        else { return nil }
        return (first, second)
    }

    /// The first commit after which a transaction is there.
    private func commit(of transaction: Int64) -> Int? {
        func isThere(_ index: Int) -> Bool { heads(at: index).map { $0.newest >= transaction } ?? false }
        var (low, high) = (0, log.sizes.count - 1)
        for index in [last, last + 1] where low < index && index < high {
            if isThere(index) { high = min(high, index) } else { low = max(low, index) }
        }
        guard isThere(high) else { return nil }
        while low + 1 < high {
            let middle = (low + high) / 2
            if isThere(middle) { high = middle } else { low = middle }
        }
        guard low < high, !isThere(low) else { return nil }
        last = high
        return high
    }

    private func heads(at index: Int) -> Heads? {
        if let known = heads[index] { return known }
        let found = state(index).flatMap { state in
            try? state.queue.readEndingTransactions { db in
                try db.rows("SELECT Z_PK FROM ATRANSACTION NOT INDEXED ORDER BY Z_PK DESC LIMIT 2") { row in
                    var numbers: [Int64] = []
                    while try row.step(db) { numbers.append(sqlite3_column_int64(row, 0)) }
                    return Heads(newest: numbers.first ?? 0, previous: numbers.dropFirst().first ?? 0)
                }
            }
        }
        heads[index] = .some(found)
        return found
    }

    /// Nil if the state cannot be read, or if it is from before a migration.
    private func state(_ index: Int) -> State? {
        if let place = open.firstIndex(where: { $0.index == index }) {
            let found = open.remove(at: place)
            open.append(found)
            return found.state
        }
        let state = try? opened(index)
        if open.count >= Self.mostOpen, let old = open.removeFirst().state {
            try? UntouchedConnection.endPast(old.queue, of: file)
        }
        open.append((index, state))
        return state
    }

    private func opened(_ index: Int) throws -> State? {
        let queue = try UntouchedConnection.openPast(file, log, log.sizes[index])
        let isOfModel = try? queue.readEndingTransactions { db in
            let version = try CoreDataCatalog.version(db, schema: try db.currentSchemaVersion())
            return try catalog.version.hasModel(of: version) && CoreDataTables.storeID(db) == catalog.storeID
        }
        if isOfModel == true { return State(queue, catalog) }
        try UntouchedConnection.endPast(queue, of: file)
        return nil
    }
}
