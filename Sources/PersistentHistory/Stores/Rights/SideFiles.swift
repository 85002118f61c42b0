internal import GRDBSQLite
internal import Glibc

/// Makes sure that SQLite creates no file beside a store that locks another user out of it.
struct SideFiles {
    enum Kind: String, CaseIterable {
        case wal = "-wal"
        case shm = "-shm"
        case journal = "-journal"
    }

    /// The store's path, with links resolved: SQLite's other files are beside it.
    private let path: String
    private let rule: SideFileRule

    /// - Returns: Nil if there is no store to check. Opening it then reports the reason.
    init?(of path: String) {
        guard let path = StorePath.withoutLinks(path), let rule = SideFileRule(of: path) else { return nil }
        (self.path, self.rule) = (path, rule)
    }

    /// Prepares the side files before a connection is opened.
    ///
    /// - Parameter timeout: How long to wait for another process's lock.
    /// - Returns: A lock to hold until the connection is open, so that the checked state still applies.
    /// - Throws: `HistoryError` with `.wouldLockOut` or `.storeBusy`.
    func prepare(for mode: StoreConnection.Mode, timeout: Duration) throws(HistoryError) -> StoreHold? {
        if isRightAnyway { return nil }
        guard let hold = try StoreHold(path, timeout: timeout) else { return nil }
        if hold.isInWALMode {
            for kind in [Kind.wal, .shm] { try follow(rule.decision(for: rights(kind)), kind) }
        } else if mode == .write {
            // The journal comes and goes with each transaction.
            try follow(rule.decision(for: nil, mayPrepare: false), .journal)
        }
        return hold
    }

    /// Whether SQLite creates every file with the right access, whatever is created or removed meanwhile.
    private var isRightAnyway: Bool {
        rule.decision(for: nil, mayPrepare: false) == .open
            && [Kind.wal, .shm].allSatisfy { rule.decision(for: rights($0)) == .open }
    }

    /// For a connection that stays open. A store in a rollback mode may change to WAL mode, and the next
    /// read would create the files. The opposite change is not possible while a connection is open.
    ///
    /// - Returns: Nil if nothing will have to be prepared.
    static func forLater(_ path: String) -> SideFiles? {
        guard let sideFiles = SideFiles(of: path), !sideFiles.isRightAnyway else { return nil }
        guard let hold = try? StoreHold(path, timeout: .zero) else { return sideFiles }
        return hold.isInWALMode ? nil : sideFiles
    }

    /// What `prepare` would refuse. Nothing is changed.
    var problem: HistoryError? {
        guard !isRightAnyway, let hold = try? StoreHold(path, timeout: .zero), hold.isInWALMode else {
            return nil
        }
        for kind in [Kind.wal, .shm] {
            if case .wait(let obstacle) = rule.decision(for: rights(kind)) {
                return HistoryError(obstacle, path, kind)
            }
        }
        return nil
    }

    /// Corrects the rights of files that were created since the store was opened.
    ///
    /// - Throws: `HistoryError` with `.wouldLockOut`.
    func check() throws(HistoryError) {
        for kind in [Kind.wal, .shm] {
            guard let rights = rights(kind) else { continue }
            try follow(rule.decision(for: rights), kind)
        }
    }

    // MARK: One file

    private func rights(_ kind: Kind) -> FileRights? { FileRights(of: path + kind.rawValue) }

    private func follow(_ decision: SideFileRule.Decision, _ kind: Kind) throws(HistoryError) {
        if case .wait(let obstacle) = decision { throw HistoryError(obstacle, path, kind) }
        do throws(SystemError) {
            switch decision {
            case .open, .wait: return
            case .make(let rights): try make(kind, rights)
            case .mend(let rights): try mend(kind, rights)
            }
        } catch {
            throw HistoryError(
                .wouldLockOut,
                "The file \"\(path)\(kind.rawValue)\" cannot be given the rights of its store: \(error).",
                hint: SideFileRule.Remedy.giveBack.text(store: path), cause: error)
        }
    }

    /// Creates an empty file, which has its rights as soon as it appears.
    private func make(_ kind: Kind, _ rights: FileRights) throws(SystemError) {
        let temporary = "\(path)\(kind.rawValue).\(String(UInt64.random(in: .min ... .max), radix: 36))"
        let descriptor = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw SystemError(call: "open", number: errno) }
        defer {
            close(descriptor)
            unlink(temporary)
        }
        try rights.give(to: descriptor)
        // Another process may have created it meanwhile.
        guard link(temporary, path + kind.rawValue) == 0 || errno == EEXIST else {
            throw SystemError(call: "link", number: errno)
        }
    }

    /// Uses a descriptor of O_PATH: closing any other would drop SQLite's locks on the `-shm`, and a path
    /// could lead to another file by now.
    private func mend(_ kind: Kind, _ rights: FileRights) throws(SystemError) {
        let descriptor = open(path + kind.rawValue, FileRights.pathOnly | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            if errno == ENOENT { return }
            throw SystemError(call: "open", number: errno)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1,
            status.st_uid == geteuid()
        else { throw SystemError(call: "chown", number: EPERM) }
        try rights.give(to: descriptor)
    }
}

extension SideFileRule {
    /// - Parameter path: The path with links resolved.
    /// - Returns: Nil if there is no store to check.
    init?(of path: String) {
        guard let store = FileRights(of: path), let folder = Folder(of: PathNames.parent(of: path)) else {
            return nil
        }
        let process = Process.current()
        self.init(
            store: store, folder: folder, process: process,
            ownerGroups: store.owner == process.user
                ? process.groups : Accounts.groups(ofUser: store.owner, likely: store.group))
    }
}

/// A shared lock on a store, as every reader holds it. While it is held, no process changes the journal
/// mode, and closing a connection does not remove the `-wal` and the `-shm`.
///
/// SQLite's own file functions open, lock and close the store. Closing any other descriptor of it would
/// drop the locks of this process's connections (https://www.sqlite.org/howtocorrupt.html, section 2.2).
/// Neither a `-wal` nor a `-shm` is created.
final class StoreHold {
    private let connection: OpaquePointer
    private let file: UnsafeMutablePointer<sqlite3_file>

    /// - Parameter timeout: How long to wait for a writer that keeps readers out.
    /// - Returns: Nil if the store cannot be opened; opening it again reports the error.
    /// - Throws: `HistoryError` with `.storeBusy`.
    init?(_ path: String, timeout: Duration) throws(HistoryError) {
        var connection: OpaquePointer?
        var file: UnsafeMutablePointer<sqlite3_file>?
        let opened = sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil)
        let found = withUnsafeMutablePointer(to: &file) {
            opened == SQLITE_OK
                ? sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, $0) : opened
        }
        guard found == SQLITE_OK, let connection, let file, let lock = file.pointee.pMethods?.pointee.xLock
        else {
            sqlite3_close_v2(connection)
            return nil
        }
        self.connection = connection
        self.file = file
        // As SQLite's busy handler does it.
        let end = ContinuousClock.now + timeout
        var result = lock(file, SQLITE_LOCK_SHARED)
        while result == SQLITE_BUSY, .now < end {
            sqlite3_sleep(5)
            result = lock(file, SQLITE_LOCK_SHARED)
        }
        guard result == SQLITE_OK else {
            throw HistoryError(
                .storeBusy, "The store \"\(path)\" is locked by another process.",
                hint: "Try again.")
        }
    }

    deinit {
        _ = file.pointee.pMethods?.pointee.xUnlock(file, SQLITE_LOCK_NONE)
        sqlite3_close_v2(connection)
    }

    /// Whether the header says WAL, which is 2 (https://www.sqlite.org/fileformat2.html, section 1.3.3).
    var isInWALMode: Bool {
        guard let read = file.pointee.pMethods?.pointee.xRead else { return false }
        // The write version and the read version.
        var versions: [UInt8] = [0, 0]
        return read(file, &versions, 2, 18) == SQLITE_OK && versions[1] == 2
    }
}
