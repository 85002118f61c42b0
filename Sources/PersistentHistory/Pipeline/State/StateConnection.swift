import GRDB

/// The connection to a state database, shared by its stores, and the served time.
///
/// It can be closed until it is needed again: in a daemon with many stores, most have nothing to save.
final class StateConnection: Sendable {
    let path: String
    /// Whether the file was just created.
    let isNew: Bool
    let clock: HistoryClock
    /// Nil while it is closed. It is used under the lock, so that it is not closed meanwhile.
    private let opened: Locked<Opened?>
    private let file: FileID?
    /// Notified when the write-ahead log is large enough for `moveLogIntoDatabase`.
    let logHasGrown = WakeUpSignal()
    /// The accesses since the last such notification. Each adds at most about one page to the log.
    private let accesses = Locked(0)
    /// Notified when the file is found to be damaged.
    let damaged = WakeUpSignal()
    private let foundDamage = Locked<HistoryError?>(nil)

    private struct Use {
        /// When the current access began.
        var began: SuspendingClock.Instant?
        /// When the first access began that has failed since the last write.
        var failingSince: SuspendingClock.Instant?
    }

    private let use = Locked(Use())
    /// How long the store had been served before this was opened.
    private let servedBefore: Duration
    private let openedAt: Duration

    private struct Opened {
        let queue: DatabaseQueue
        let sideFiles: SideFileIDs

        init(_ queue: DatabaseQueue, of path: String) {
            (self.queue, sideFiles) = (queue, SideFileIDs(beside: path))
        }
    }

    /// Opens a state database, or creates it if it does not exist.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    init(_ path: String, clock: HistoryClock) throws {
        self.path = path
        self.clock = clock
        openedAt = clock.elapsed()
        isNew = FileID(of: path) == nil
        if let problem = PlainFile.problem(at: path) {
            throw HistoryError(
                .stateUnusable, "The state database \"\(path)\" cannot be used: \(problem).",
                hint: AccessAdvice(state: PathNames.parent(of: path))?.text()
                    ?? "Move away what is there; the store's consumers then start over.")
        }
        do {
            let queue = try Self.open(path, mayMake: true)
            servedBefore = try queue.writeWithoutTransaction { db in
                try StateSchema.prepare(db, path: path)
                let served = try Int64.fetchOne(
                    db,
                    sql:
                        "SELECT max(served) FROM (SELECT served FROM service UNION ALL SELECT served FROM cursor)"
                )
                return .milliseconds(
                    min(max(served ?? 0, Self.servedRange.lowerBound), Self.servedRange.upperBound))
            }
            opened = Locked(Opened(queue, of: path))
            file = queue.unsafeRead(\.openedFile)
        } catch let error as DatabaseError {
            throw HistoryError.state(path, error)
        }
    }

    /// The number of accesses after which the log is moved into the database: SQLite does so after as
    /// many pages.
    static let logTurn = 1000
    /// The number of pages in the log at which SQLite does so at a commit, because writers left no other
    /// time.
    private static let longestLog = 4 * logTurn

    static func open(_ path: String, mayMake: Bool = false) throws -> DatabaseQueue {
        assertMayWait()
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue.open(PlainFile.uri(path, mayMake: mayMake), configuration) { db in
            try ConnectionHardening.apply(db, .isLeftAlone)
            try db.execute(
                sql: """
                    PRAGMA synchronous = NORMAL; PRAGMA cache_size = -128; PRAGMA journal_mode = WAL;
                    PRAGMA wal_autocheckpoint = \(longestLog)
                    """)
        }
    }

    /// How long the store has been served in total, by a monotonic clock.
    var served: Duration { servedBefore + max(.zero, clock.elapsed() - openedAt) }

    var isOpen: Bool { opened.withLock { $0 != nil } }
    /// Whether the file is still the one that was opened.
    var isThere: Bool { file != nil && FileID(of: path) == file }

    /// The damage, if any was found.
    var damage: HistoryError? { foundDamage.withLock { $0 } }

    /// Runs a body outside a transaction.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`, and what else the body throws.
    func access<T>(_ body: (Database) throws -> T) throws -> T {
        assertMayWait()
        do {
            return try opened.withLock { opened in
                let isFailing = use.withLock { use in
                    use.began = .now
                    return use.failingSince != nil
                }
                var (isDone, hasWritten) = (false, false)
                defer { accessed(!isDone ? .failed : hasWritten ? .written : .read) }
                // The log was removed.
                if opened?.sideFiles.isOutdated(beside: path) == true { try end(&opened) }
                let queue = try opened?.queue ?? another()
                defer {
                    if opened == nil { opened = Opened(queue, of: path) }
                    countAccess()
                }
                return try queue.writeWithoutTransaction { db in
                    let before = isFailing ? db.totalChangesCount : 0
                    let result = try body(db)
                    (isDone, hasWritten) = (true, isFailing && db.totalChangesCount > before)
                    return result
                }
            }
        } catch let error as DatabaseError {
            // SQLite opens a file for reading alone if it cannot be opened for writing, also for lack of
            // descriptors, and such a connection stays so.
            if error.resultCode == .SQLITE_READONLY { try? close() }
            throw noted(.state(path, error))
        } catch let error as UnexpectedValue {
            throw noted(.state(path, DatabaseError(resultCode: .SQLITE_CORRUPT, message: error.message)))
        } catch is RowDecodingError {
            throw noted(
                .state(path, DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a value has a wrong type")))
        }
    }

    private enum Access { case read, written, failed }

    private func accessed(_ access: Access) {
        use.withLock { use in
            switch access {
            case .failed: use.failingSince = use.failingSince ?? use.began
            case .written: use.failingSince = nil
            case .read: break
            }
            use.began = nil
        }
    }

    /// How long nothing could be saved, or how long the current access has lasted; nil if neither.
    var waitingTime: Duration? {
        use.withLock { [$0.failingSince, $0.began].compactMap(\.self).min() }.map { .now - $0 }
    }

    /// Checks whether a problem with saving is over when there is nothing to save. It waits for no lock.
    func checkIsWritable() {
        assertMayWait()
        guard use.withLock({ $0.failingSince != nil }) else { return }
        let isWritable = opened.withLock { opened -> Bool in
            guard let queue = opened?.queue ?? (try? another()) else { return false }
            if opened == nil { opened = Opened(queue, of: path) }
            do {
                try queue.writeWithoutTransaction { db in
                    try db.execute(sql: "PRAGMA busy_timeout = 0")
                    defer { try? db.execute(sql: "PRAGMA busy_timeout = 5000") }
                    try db.inTransaction(.immediate) { .rollback }
                }
                return true
            } catch {
                return false
            }
        }
        if isWritable { accessed(.written) }
    }

    private func countAccess() {
        let isEnough = accesses.withLock { accesses in
            accesses = (accesses + 1) % Self.logTurn
            return accesses == 0
        }
        if isEnough { logHasGrown.notify() }
    }

    /// Remembers that the file is damaged, if the error says so.
    func noted(_ error: HistoryError) -> HistoryError {
        if error.code == .stateDamaged {
            foundDamage.withLock { $0 = $0 ?? error }
            damaged.notify()
        }
        return error
    }

    /// The possible served time in milliseconds: thousands of years, far from where sums overflow.
    static let servedRange: ClosedRange<Int64> = 0...(1 << 50)

    /// Another connection to the same file.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable` if it was removed or replaced, `DatabaseError`.
    func another() throws -> DatabaseQueue {
        try checkIsThere()
        let queue = try Self.open(path)
        guard queue.unsafeRead(\.openedFile) == file else {
            try queue.end()
            throw HistoryError.stateReplaced(path)
        }
        return queue
    }

    /// - Throws: `HistoryError` with `.stateUnusable` if the file was removed or replaced. The open
    ///   connection would write to no avail, and after a restart consumers would start over.
    func checkIsThere() throws {
        guard isThere else { throw HistoryError.stateReplaced(path) }
    }

    /// Runs a body in a transaction.
    func transaction(_ body: (Database) throws -> Void) throws {
        try access { db in
            try db.inTransaction {
                try body(db)
                return .commit
            }
        }
    }

    /// Closes the connection. The next access opens another one.
    func close() throws {
        assertMayWait()
        try opened.withLock { try end(&$0) }
    }

    /// Closes a connection, and moves a log that was removed into the database before that. Closing itself does so
    /// only if no other connection is open, such as the one that syncs.
    private func end(_ opened: inout Opened?) throws {
        guard let ended = opened else { return }
        if ended.sideFiles.isOutdated(beside: path) {
            let (frames, moved) = try ended.queue.writeWithoutTransaction { try $0.checkpoint(.passive) }
            if moved < frames {
                throw DatabaseError(resultCode: .SQLITE_BUSY, message: "a program still reads the log")
            }
        }
        opened = nil
        try ended.queue.end()
    }
}
