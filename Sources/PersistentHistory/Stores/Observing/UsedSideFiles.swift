internal import Glibc

/// Identifies the `-wal` and the `-shm` beside a database.
///
/// Neither can go while a connection has them open, unless they are removed by hand. Then that connection
/// keeps using files without a name, the next program makes new ones, and neither sees the other's
/// commits.
struct SideFileIDs: Equatable, Sendable {
    let wal: FileID?
    let shm: FileID?

    init(beside path: String) { (wal, shm) = (FileID(of: path + "-wal"), FileID(of: path + "-shm")) }

    /// Whether others than those of a connection in WAL mode, which has both, are beside the database now, or were
    /// when it had been opened.
    func isOutdated(beside path: String) -> Bool {
        wal == nil || shm == nil || SideFileIDs(beside: path) != self
    }
}

/// The side files of a store that connections of this process may have open.
final class UsedSideFiles: Sendable {
    /// The store's path, with links resolved: SQLite's files are beside that. Nil if there is no store.
    private let path: String?
    private let known: Locked<SideFileIDs?>

    init(of storePath: String) {
        path = StorePath.withoutLinks(storePath)
        known = Locked(path.map { SideFileIDs(beside: $0) })
    }

    /// Whether a connection of this process uses side files that other processes no longer find.
    ///
    /// - Parameter isEvident: Whether one is known to have been removed. If not, the open files are
    ///   checked only when other side files exist now.
    func areLost(isEvident: Bool) -> Bool {
        guard let path else { return false }
        let now = SideFileIDs(beside: path)
        let before = known.withLock { known in
            defer { known = now }
            return known
        }
        guard isEvident || before != now else { return false }
        return Self.areOpen(
            path, wal: before?.wal == now.wal ? nil : before?.wal,
            shm: before?.shm == now.shm ? nil : before?.shm)
    }

    /// Whether this process has removed side files of a store open.
    static func areLost(of storePath: String) -> Bool {
        StorePath.withoutLinks(storePath).map { areOpen($0, wal: nil, shm: nil) } ?? false
    }

    /// Whether a connection has side files of a store open that lost their name, or whose name belongs to
    /// another file now.
    ///
    /// - Parameters:
    ///   - wal: A file that was the `-wal` before and is not any more.
    ///   - shm: The same for the `-shm`.
    private static func areOpen(_ path: String, wal: FileID?, shm: FileID?) -> Bool {
        OpenFiles.contains { descriptor, status in
            let (file, isNameless) = (FileID(status), status.st_nlink == 0)
            guard isNameless || file == wal || file == shm else { return false }
            let name = isNameless ? OpenFiles.path(of: descriptor) : nil
            if file == wal || name == path + "-wal (deleted)" { return true }
            // A probe also has the `-shm` open, but only SQLite has a lock on it.
            guard file == shm || name == path + "-shm (deleted)" else { return false }
            return OpenFiles.hasProcessLock(by: descriptor)
        } ?? (wal != nil || shm != nil)
    }
}

extension HistoryError {
    static func sideFilesLost(of path: String) -> HistoryError {
        HistoryError(
            .storeInterrupted,
            "The -wal or the -shm of the store \"\(path)\" was removed by another process while the store was in use.",
            hint:
                "The store is opened again. Only SQLite may remove these files: what was in the -wal alone is lost.",
            cause: SideFilesLost())
    }
}

/// The cause of a `HistoryError` where side files were removed under a connection, or are being moved with their store.
struct SideFilesLost: Error {}
