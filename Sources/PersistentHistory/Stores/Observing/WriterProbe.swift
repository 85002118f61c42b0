internal import Glibc

/// Finds out whether a process is writing to a store now, without delaying it: it queries locks and takes
/// none.
///
/// It queries both kinds of locks each time. So the store's journal mode does not matter, nor whether the
/// mode is just changing:
/// - In WAL mode, a writer holds WAL_WRITE_LOCK from before its first frame until after its commit is
///   published in the wal-index: byte 120 of the `-shm` (https://www.sqlite.org/walformat.html, section 2.3.1;
///   `UNIX_SHM_BASE` in os_unix.c).
/// - In the rollback modes, a writer holds RESERVED, then PENDING and EXCLUSIVE, from before its first
///   write until after its journal is finished: write locks on the bytes from PENDING_BYTE,
///   0x40000000, on, 512 in all (https://www.sqlite.org/lockingv3.html; os.h). Readers hold read locks
///   on the last 510 of them.
///
/// The query is for a read lock, with which readers' locks do not conflict, and for a lock of the *open
/// file description* (`F_OFD_GETLK`, fcntl(2)), so that it also sees writers in this process.
///
/// ## The owner's duty
/// Closing any descriptor of a file drops all locks that the process has on it, SQLite's included ("How
/// To Corrupt", https://www.sqlite.org/howtocorrupt.html, section 2.2). The probe has descriptors of the
/// store and of its `-shm`. So make one probe for a store, and call `close()` only after the last
/// connection of this process to the store is closed. `close()` refuses if it sees that locks are held. A
/// probe that was never closed leaves its descriptors open, which loses a descriptor but no lock.
///
/// Like a connection, an open probe keeps the store's file system from being unmounted.
///
/// A probe is for one file. When the store is replaced, close the connections, then the probe, and make
/// new ones.
package final class WriterProbe: Sendable {
    private struct Descriptors: Sendable {
        /// The store's path, with links resolved: SQLite's other files are beside it.
        var path: String
        var store: Int32
        var shm: Int32?
        /// Descriptors of deleted `-shm` files that a connection of this process may still use.
        var retired: [Int32] = []
        var isClosed = false

        var all: [Int32] { [store] + (shm.map { [$0] } ?? []) + retired }
    }

    private let descriptors: Locked<Descriptors>

    /// - Parameter storePath: May be a symbolic link, or lead through one.
    /// - Throws: `ObserverError` with `missing`, `unreadable`, `tooManyDescriptors` or `system`.
    package init(storePath: String) throws(ObserverError) {
        // As SQLite does it: the side files are beside the real file.
        guard let real = StorePath.withoutLinks(storePath) else {
            throw .failed(to: "find '\(storePath)'", errno)
        }
        guard let store = try Self.open(real) else { throw .failed(to: "open '\(storePath)'", ENOENT) }
        descriptors = Locked(Descriptors(path: real, store: store))
    }

    deinit {
        assert(descriptors.withLock(\.isClosed), "A writer probe of '\(path)' was not closed.")
    }

    private var path: String { descriptors.withLock(\.path) }

    /// Notes that the store's file was renamed: its `-shm` is beside the new name.
    func follow(_ storePath: String) {
        guard let real = StorePath.withoutLinks(storePath) else { return }
        descriptors.withLock { descriptors in
            guard !real.hasSameBytes(as: descriptors.path) else { return }
            descriptors.path = real
            if let shm = descriptors.shm { descriptors.retired.append(shm) }
            descriptors.shm = nil
        }
    }

    /// A writer that holds a lock.
    package enum Writer: Sendable {
        /// It writes a write-ahead log, concurrently with readers.
        case ofLog
        /// It writes a rollback journal: a reader can block its commit.
        case ofJournal
    }

    /// Whether a writer, in this process or another, holds a lock at this moment.
    ///
    /// - Throws: `ObserverError` with `unreadable`, `tooManyDescriptors`, `ended` or `system`.
    package func isWriterActive() throws(ObserverError) -> Bool { try writer() != nil }

    /// The writer that holds a lock now, in this process or another.
    ///
    /// - Throws: As `isWriterActive`.
    package func writer() throws(ObserverError) -> Writer? {
        try descriptors.withLock { descriptors throws(ObserverError) in
            guard !descriptors.isClosed else {
                throw ObserverError(.ended, "The writer probe of '\(descriptors.path)' is closed.")
            }
            if let shm = try currentShm(&descriptors),
                try Self.conflict(shm, with: F_RDLCK, SQLiteLocks.walWrite) != nil
            {
                return .ofLog
            }
            let lock = try Self.conflict(descriptors.store, with: F_RDLCK, SQLiteLocks.rollbackWrite)
            return lock == nil ? nil : .ofJournal
        }
    }

    /// What the last commit to the write-ahead log left in the wal-index, as of the `-shm` that the last
    /// question of a writer found. Nil if there is none, or a writer is just publishing.
    func publication() -> WALPublication? {
        descriptors.withLock { $0.shm.flatMap { WALPublication(reading: $0) } }
    }

    /// Whether a connection of this process or another uses the `-shm`. Each holds a lock on one of its
    /// bytes.
    ///
    /// - Throws: As `isWriterActive`.
    func isIndexUsed() throws(ObserverError) -> Bool {
        try descriptors.withLock { descriptors throws(ObserverError) in
            guard let shm = try currentShm(&descriptors) else { return false }
            return try Self.conflict(shm, with: F_WRLCK, SQLiteLocks.wholeFile) != nil
        }
    }

    /// Ends the probe. Close all connections of this process to the store first.
    ///
    /// - Throws: `ObserverError` with `locksHeld` if this process holds a lock on the store. Nothing is
    ///   closed then, and the call may be repeated. Success does not prove that there are no connections:
    ///   an idle connection to a rollback-journal store holds no lock.
    package func close() throws(ObserverError) {
        try descriptors.withLock { descriptors throws(ObserverError) in
            guard !descriptors.isClosed else { return }
            for descriptor in descriptors.all where try Self.hasOwnLock(descriptor) {
                throw ObserverError(
                    .locksHeld,
                    "Cannot close the writer probe of '\(descriptors.path)': this process has locks on the store.",
                    hint: "Close the connections to it first.")
            }
            for descriptor in descriptors.all { Glibc.close(descriptor) }
            descriptors = Descriptors(path: descriptors.path, store: -1, isClosed: true)
        }
    }

    /// The probed file; nil once the probe is closed.
    var file: FileID? {
        descriptors.withLock { descriptors in
            var status = stat()
            return fstat(descriptors.store, &status) == 0 ? FileID(status) : nil
        }
    }

    /// Runs a body with the descriptor of the store, which stays open.
    func withStore<T>(_ body: (Int32) throws -> T) rethrows -> T {
        try descriptors.withLock { try body($0.store) }
    }

    /// Whether the file has lost its name.
    var isOfDeletedFile: Bool {
        descriptors.withLock { descriptors in
            var status = stat()
            return fstat(descriptors.store, &status) == 0 && status.st_nlink == 0
        }
    }

    /// The `-shm` that writers use now. It is created with the first connection in WAL mode and removed
    /// with the last one.
    private func currentShm(_ descriptors: inout Descriptors) throws(ObserverError) -> Int32? {
        if let shm = descriptors.shm {
            var status = stat()
            guard fstat(shm, &status) == 0 else {
                throw .failed(to: "examine '\(descriptors.path)-shm'", errno)
            }
            if status.st_nlink > 0 { return shm }
            descriptors.retired.append(shm)
            descriptors.shm = nil
            try closeRetired(&descriptors)
        }
        descriptors.shm = try Self.open(descriptors.path + "-shm")
        return descriptors.shm
    }

    /// A connection that still uses a deleted `-shm` holds a read lock on DMS, byte 128, and no new
    /// connection can open that file. So if there is no lock, closing the descriptor drops none.
    private func closeRetired(_ descriptors: inout Descriptors) throws(ObserverError) {
        var kept: [Int32] = []
        for descriptor in descriptors.retired {
            if try Self.conflict(descriptor, with: F_WRLCK, SQLiteLocks.wholeFile) == nil {
                Glibc.close(descriptor)
            } else {
                kept.append(descriptor)
            }
        }
        descriptors.retired = kept
    }
}

// MARK: - Asking

/// Where SQLite's locks lie.
private enum SQLiteLocks {
    /// WAL_WRITE_LOCK, in the `-shm`.
    static let walWrite: Range<Int64> = 120..<121
    /// PENDING, RESERVED and SHARED, in the store.
    static let rollbackWrite: Range<Int64> = 0x4000_0000..<0x4000_0200
    static let wholeFile: Range<Int64> = 0..<Int64.max
    /// All bytes except those of leases and migrations, which are locks of open file descriptions.
    static let ofSQLite: Range<Int64> = 0..<StoreLease.start - 1
}

extension WriterProbe {
    /// The kernel reports one lock at a time and hides others on the same bytes: each connection to a
    /// store in WAL mode has one on byte 128 of its `-shm`. So if there is any lock, this process's own
    /// locks are listed.
    private static func hasOwnLock(_ descriptor: Int32) throws(ObserverError) -> Bool {
        guard let lock = try conflict(descriptor, with: F_WRLCK, SQLiteLocks.ofSQLite) else { return false }
        if lock.l_pid == getpid() { return true }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return true }
        // Without /proc, this process's locks may be among them.
        return OpenFiles.hasProcessLock(on: FileID(status)) ?? true
    }

    /// A lock that a lock of `type` would conflict with.
    private static func conflict(
        _ descriptor: Int32, with type: Int32, _ bytes: Range<Int64>
    ) throws(ObserverError) -> flock? {
        do throws(SystemError) {
            return try FileLock.conflict(descriptor, with: type, in: bytes)
        } catch {
            throw .failed(to: "ask for the locks of a store", error.number)
        }
    }

    /// Nil if the file does not exist.
    private static func open(_ path: String) throws(ObserverError) -> Int32? {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK)
        if descriptor >= 0 { return descriptor }
        let number = errno
        if number == ENOENT { return nil }
        throw .failed(to: "open '\(path)'", number)
    }
}

// MARK: - Keeping

/// Probes of stores to which this process may have connections. Closing a probe would drop the locks of
/// those connections, and whether there are any is not certain (see `WriterProbe.close`). So probes are
/// kept and used again.
///
/// A program that works with a store and starts and stops observing it many times thus needs no more
/// descriptors each time.
package final class WriterProbes: Sendable {
    package static let shared = WriterProbes()

    private let idle = Locked<[FileID: [WriterProbe]]>([:])

    /// A probe of the store, kept or new.
    ///
    /// - Throws: `ObserverError`, as `WriterProbe` does.
    package func take(_ path: String) throws(ObserverError) -> WriterProbe {
        if let file = FileID(of: path), let probe = idle.withLock({ $0[file]?.popLast() }) {
            probe.follow(path)
            return probe
        }
        return try WriterProbe(storePath: path)
    }

    /// Ends the use of a probe. It is kept if this process may have connections to the store
    /// (`isUsedInProcess`), or is seen to have one, such as an operator's query. Otherwise it is closed.
    func end(_ probe: WriterProbe, isUsedInProcess: Bool) {
        if isUsedInProcess || !probe.isClosedNow() { keep(probe) }
    }

    package func keep(_ probe: WriterProbe) {
        guard let file = probe.file else { return }
        idle.withLock { idle in
            idle[file, default: []].append(probe)
            // A probe of a deleted file would keep its disk space, and its locks are not needed again.
            for (file, probes) in idle where probes.contains(where: \.isOfDeletedFile) {
                idle[file] = probes.filter { !$0.isClosedNow() }
            }
        }
    }
}

extension WriterProbe {
    /// Closes the probe unless this process is seen to hold locks.
    fileprivate func isClosedNow() -> Bool {
        do throws(ObserverError) {
            try close()
            return true
        } catch {
            return false
        }
    }
}
