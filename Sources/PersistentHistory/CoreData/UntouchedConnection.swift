internal import CSQLiteHistory
import GRDB
internal import Glibc

/// A connection to a store of which not a byte may change, nor its `-wal`, nor its folder.
///
/// What is at rest is read without locks; when a process begins to use it, or when it is another file, the connection is
/// opened again.
final class UntouchedConnection: Sendable {
    private struct Opened {
        let queue: DatabaseQueue
        let access: UntouchedAccess
        let files: StoreFiles
        /// The file's own path: SQLite finds its log beside it.
        let file: String
    }

    private struct State {
        var opened: Opened?
        var timeout: Duration
        var isEnded = false
    }

    let path: String
    let work = WorkLimit()
    private let state: Locked<State>
    /// Of the work that a read may make where others wait for it.
    private static let mostLooks = 1000
    /// How often a read begins again because the files changed meanwhile.
    private static let attempts = 5

    init(path: String, timeout: Duration) throws {
        self.path = path
        state = Locked(State(timeout: timeout))
        try HistoryError.translating(path) {
            try state.withLock { state in _ = try opened(&state) }
        }
    }

    /// From now on it waits for no lock that another process holds.
    func stopWaitingForLocks() throws {
        work.setMost(Self.mostLooks)
        try state.withLock { state in
            state.timeout = .zero
            try state.opened?.queue.unsafeRead { try Self.setTimeout($0, .zero) }
        }
    }

    func forgetPages() {
        state.withLock { state in
            state.opened?.queue.unsafeRead { db in
                if let connection = db.sqliteConnection { history_forget_pages(connection) }
            }
        }
    }

    func close() throws {
        try HistoryError.translating(path) {
            try state.withLock { state in
                state.isEnded = true
                if let opened = state.opened.take() {
                    try Self.end(opened.queue, opened.access, of: opened.file)
                }
            }
        }
    }

    /// Reads in one transaction. A body is run again where the files changed while it read.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path, remedy: "Copy the store again from where it is written.") {
            try work.explaining {
                try state.withLock { state in
                    for _ in 0..<Self.attempts {
                        let opened = try opened(&state)
                        work.begin()
                        let result = Result {
                            try opened.queue.unsafeRead { db in
                                try db.inReadTransaction { try body(db) }
                            }
                        }
                        let isUnchanged = !opened.files.isOutdated(
                            by: StoreFiles(of: opened.file), opened.access)
                        if isUnchanged || opened.access == .shared { return try Self.value(result, path) }
                    }
                    throw HistoryError(
                        .storeBusy, "The store \"\(path)\" changes while it is read.", hint: "Try again.")
                }
            }
        }
    }

    private static func value<T>(_ result: Result<T, any Error>, _ path: String) throws -> T {
        do {
            return try result.get()
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            throw HistoryError(
                .storeUnreadable,
                "The store \"\(path)\" has a rollback journal of a transaction that was broken off.",
                hint: "Copy the store with its -journal, and open the copy with sqlite3, which rolls it back.",
                cause: error)
        } catch let error as DatabaseError
            where error.extendedResultCode == .SQLITE_READONLY_RECOVERY
            || error.extendedResultCode == .SQLITE_READONLY_CANTINIT
        {
            // The next writer makes the wal-index again.
            throw HistoryError(
                .storeBusy, "The wal-index of the store \"\(path)\" is being made.", hint: "Try again.",
                cause: error)
        }
    }

    // MARK: Opening

    private func opened(_ state: inout State) throws -> Opened {
        if let opened = state.opened {
            if !opened.files.isOutdated(by: StoreFiles(of: opened.file), opened.access) { return opened }
            state.opened = nil
            try Self.end(opened.queue, opened.access, of: opened.file)
        }
        if state.isEnded { throw HistoryError(.storeNotOpen, "The store \"\(path)\" is closed.") }
        let file = try StorePath.resolve(path)
        let files = StoreFiles(of: file)
        let timeout = state.timeout
        let access = try files.access(to: file)
        let queue = try Self.value(Result { try Self.connect(file, access, timeout, work) }, path)
        let opened = Opened(queue: queue, access: access, files: files, file: file)
        state.opened = opened
        return opened
    }

    /// Reads what the file of a store says by itself, without its `-wal` and its journal.
    static func peek<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        let file = try StorePath.resolve(path)
        let queue = try connect(file, .immutable, .zero, WorkLimit())
        let result = Result { try queue.unsafeRead(body) }
        try end(queue, .immutable, of: file)
        return try result.get()
    }

    private static func connect(
        _ file: String, _ access: UntouchedAccess, _ timeout: Duration, _ work: WorkLimit
    ) throws -> DatabaseQueue {
        guard let vfs = history_untouching_vfs(access == .still ? 1 : 0) else {
            throw HistoryError(.sqlite, "This SQLite cannot open a store without a trace: it knows no URIs.")
        }
        var configuration = Configuration.ofStore
        configuration.readonly = true
        configuration.prepareDatabase { [work] db in
            // Before the first look at the store: then its wal-index is in memory.
            if access == .still { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
            try db.execute(sql: "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1024")
            try setTimeout(db, timeout)
            try ConnectionHardening.apply(db, .isLeftAlone, work)
        }
        let how = access == .immutable ? "&immutable=1" : access == .shared ? "&readonly_shm=1" : ""
        let uri = PlainFile.uri(file, vfs: String(cString: vfs)) + how
        return try DatabaseQueue(path: uri, configuration: configuration)
    }

    /// Connections without locks that have to stay open, by their files.
    private static let waiting = Locked<[FileID: [DatabaseQueue]]>([:])

    /// Closes a connection. Where another one of this process has come to have locks, to close one that has none would drop
    /// these: it stays open until they are gone.
    private static func end(_ queue: DatabaseQueue, _ access: UntouchedAccess, of path: String) throws {
        guard let file = FileID(of: path) else { return try queue.end() }
        if access == .shared {
            try queue.end()
        } else {
            waiting.withLock { $0[file, default: []].append(queue) }
        }
        guard waiting.withLock({ $0[file] != nil }), OpenFiles.hasProcessLock(on: file) != true else { return }
        for queue in waiting.withLock({ $0.removeValue(forKey: file) }) ?? [] { try queue.end() }
    }

    private static func setTimeout(_ db: Database, _ timeout: Duration) throws {
        try db.execute(sql: "PRAGMA busy_timeout = \(Int(timeout / .milliseconds(1)))")
    }
}
