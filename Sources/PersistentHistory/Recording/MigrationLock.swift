internal import Glibc

/// Says to other processes that a migration has the triggers of a store taken out.
///
/// It is a lock of the open file description (fcntl(2)) on one byte of the store, far behind everything that SQLite
/// reads, writes or locks, and in front of the leases (see `StoreLease`). The migration's command inherits the
/// descriptor: the lock lasts until it is ended, or else until both processes have, however they end.
struct MigrationLock: Sendable {
    private static let byte = StoreLease.start - 1
    /// F_OFD_GETLK and F_OFD_SETLK of Linux's fcntl.h, which glibc shows to GNU sources only.
    private static let (askForLock, setLock): (Int32, Int32) = (36, 37)

    private let descriptor: Int32

    /// - Throws: `HistoryError` with `.storeBusy` where another migration runs.
    init(_ path: String) throws {
        // For writing, so that processes that watch the store notice its end: it is closed as after a write.
        descriptor = Glibc.open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw HistoryError(
                .storeUnreadable,
                "\"\(path)\" cannot be opened for a migration: \(String(cString: strerror(errno))).",
                hint: "Run the migration as a user that may write to the store.")
        }
        var lock = Self.lock(F_WRLCK)
        if fcntl(descriptor, Self.setLock, &lock) != 0, errno == EAGAIN || errno == EACCES {
            Glibc.close(descriptor)
            throw Self.underWay(path)
        }
    }

    /// Ends it. All connections of this process to the store must be closed before: closing any descriptor of a
    /// file drops SQLite's locks on it.
    func end() {
        // Said, because a process that the command has left behind may have the descriptor.
        var lock = Self.lock(F_UNLCK)
        _ = fcntl(descriptor, Self.setLock, &lock)
        Glibc.close(descriptor)
    }

    /// Lets processes that are started from now on inherit it.
    func inherit() { _ = fcntl(descriptor, F_SETFD, 0) }

    static func underWay(_ path: String) -> HistoryError {
        HistoryError(
            .storeBusy, "A migration of the store \"\(path)\" is running, so its triggers are not changed.",
            hint: "They are updated when the migration has ended.")
    }

    private static func lock(_ type: Int32) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(byte)
        lock.l_len = 1
        return lock
    }

    /// Whether a migration runs, asked with an open descriptor of the store.
    fileprivate static func isHeld(_ descriptor: Int32) -> Bool {
        var lock = lock(F_WRLCK)
        return fcntl(descriptor, askForLock, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }
}

extension WriterProbe {
    /// Whether a migration has the triggers of the store taken out.
    var isMigrating: Bool { withStore { MigrationLock.isHeld($0) } }

    /// The same of a store that this process may have connections to, or not (`isUsedInProcess`). One that
    /// cannot be opened is not being migrated: its next user finds out why.
    static func isMigrating(_ path: String, isUsedInProcess: Bool) -> Bool {
        do throws(ObserverError) {
            let probe = isUsedInProcess ? try WriterProbes.shared.take(path) : try WriterProbe(storePath: path)
            let isMigrating = probe.isMigrating
            if isUsedInProcess { WriterProbes.shared.keep(probe) } else { try probe.close() }
            return isMigrating
        } catch {
            return false
        }
    }
}
