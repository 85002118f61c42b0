internal import CSQLiteHistory
import GRDB
internal import Glibc

/// A connection to a store that must not change: not a byte of it, its `-wal` or its folder.
///
/// A store at rest is read without locks. When a process begins to use it, or when it is another file,
/// the connection is opened again.
final class UntouchedConnection: Sendable {
    private struct Opened {
        let queue: DatabaseQueue
        let access: UntouchedAccess
        let files: StoreFiles
        /// The path with links resolved: SQLite looks for its log beside it.
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
    /// How many times SQLite may check in a read that others wait for.
    private static let mostLooks = 1000
    /// How often a read is repeated because the files changed meanwhile.
    private static let attempts = 5

    /// Advice: how to examine a store without changing it.
    static let check =
        "Run `PRAGMA integrity_check` on a copy, because sqlite3 changes the files beside a store that it opens. `historyctl history --salvage` reads what is left of a history of Core Data's."

    init(path: String, timeout: Duration) throws {
        self.path = path
        state = Locked(State(timeout: timeout))
        try HistoryError.translating(path, isUntouched: true) {
            try state.withLock { state in
                try LockWait.retrying(timeout) { _ = try opened(&state) }
            }
        }
    }

    /// Stops waiting for locks that other processes hold.
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

    /// Reads in one transaction. If the files changed during the read, the body runs again, until the
    /// timeout: an application is opening or closing the store.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(
            path, remedy: "`historyctl history --salvage` reads what is left. Work on a copy of the files.",
            isUntouched: true
        ) {
            try work.explaining {
                try state.withLock { state in
                    let timeout = state.timeout
                    return try LockWait.retrying(timeout) { try readOnce(&state, body) }
                }
            }
        }
    }

    private func readOnce<T>(_ state: inout State, _ body: (Database) throws -> T) throws -> T {
        for _ in 0..<Self.attempts {
            let opened = try opened(&state)
            work.begin()
            let result = Result {
                try opened.queue.readEndingTransactions { db in try db.inReadTransaction { try body(db) } }
            }
            let isUnchanged = !opened.files.isOutdated(by: StoreFiles(of: opened.file), opened.access)
            if isUnchanged { return try Self.value(result, path) }
            // SQLite notices changes of the content. A failure may be caused by files that are being
            // created or removed.
            if opened.access == .shared, case .success(let value) = result { return value }
        }
        throw isChanging
    }

    private var isChanging: HistoryError {
        HistoryError(
            .storeBusy, "The files of the store \"\(path)\" change while it is read: an application uses it.",
            hint: "Try again.")
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
            // The next writer creates the wal-index again.
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
        let access: UntouchedAccess
        let queue: DatabaseQueue
        do {
            access = try files.access(to: file)
            queue = try Self.value(Result { try Self.connect(file, access, timeout, work) }, path)
        } catch {
            // An application is creating or removing the files of the store.
            throw files == StoreFiles(of: file) ? error : isChanging
        }
        let opened = Opened(queue: queue, access: access, files: files, file: file)
        state.opened = opened
        return opened
    }

    /// Reads what a store's file says by itself, without its `-wal` and its journal.
    static func peek<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        let file = try StorePath.resolve(path)
        let queue = try connect(file, .immutable, .zero, WorkLimit())
        let result = Result { try queue.readEndingTransactions(body) }
        try end(queue, .immutable, of: file)
        return try result.get()
    }

    /// Reads once through a separate connection that leaves no trace, even if the schema cannot be read.
    static func lookOnce(_ path: String, _ look: @escaping @Sendable (Database) throws -> Void) throws {
        let file = try StorePath.resolve(path)
        try connect(file, try StoreFiles(of: file).access(to: file), .zero, WorkLimit(), look).end()
    }

    private static func connect(
        _ file: String, _ access: UntouchedAccess, _ timeout: Duration, _ work: WorkLimit,
        past: (size: Int64, log: LoggedCommits)? = nil, _ look: (@Sendable (Database) throws -> Void)? = nil
    ) throws -> DatabaseQueue {
        let name = past == nil ? history_untouching_vfs(access == .still ? 1 : 0) : history_past_vfs()
        guard let vfs = name else {
            throw HistoryError(.sqlite, "This SQLite cannot open a store without a trace: it knows no URIs.")
        }
        var configuration = Configuration.ofStore
        configuration.readonly = true
        let how = access == .immutable ? "&immutable=1" : access == .shared ? "&readonly_shm=1" : ""
        let uri = PlainFile.uri(file, vfs: String(cString: vfs)) + how
        return try DatabaseQueue.open(uri, configuration) { [work] db in
            // Set before the first read, so that the wal-index is in memory.
            if access == .still { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
            if let past { try past.log.lookBack(db, past.size) }
            // Other statements need the schema.
            try look?(db)
            try db.execute(sql: "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1024")
            try setTimeout(db, timeout)
            try ConnectionHardening.apply(db, .isLeftAlone, work)
        }
    }

    /// Opens a store that no process uses as it was after a commit in its log.
    ///
    /// - Parameter size: The size of the log up to that commit.
    static func openPast(_ file: String, _ log: LoggedCommits, _ size: Int64) throws -> DatabaseQueue {
        try connect(file, .still, .zero, WorkLimit(), past: (size, log))
    }

    static func endPast(_ queue: DatabaseQueue, of file: String) throws { try end(queue, .still, of: file) }

    /// Connections without locks that have to stay open, by file.
    private static let waiting = Locked<[FileID: [DatabaseQueue]]>([:])

    /// Closes a connection. Closing one without locks would drop the locks of this process's other
    /// connections to the file; then it stays open until they are gone.
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
