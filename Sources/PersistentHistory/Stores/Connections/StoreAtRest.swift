internal import Glibc

/// How to read a store of which not a byte may change.
enum UntouchedAccess: Sendable, Equatable {
    /// With SQLite's locks and the existing `-shm`: a process may be writing.
    case shared
    /// No process uses the store: without locks, with a wal-index in memory.
    case still
    /// As `still`, and there is no `-wal` either.
    case immutable
}

/// The files of a store at one moment: the store, its `-wal` and its `-shm`.
///
/// A process that begins to use a store gives no sign to a reader without locks. So the files are
/// compared before and after each read.
struct StoreFiles: Sendable, Equatable {
    private let store: FileVersion?
    private let wal: FileVersion?
    private let shm: FileVersion?

    /// - Parameter path: The store's file itself, not a link to it.
    init(of path: String) {
        store = FileVersion(of: path)
        wal = FileVersion(of: path + "-wal")
        shm = FileVersion(of: path + "-shm")
    }

    /// Whether a connection with this access has to be opened again.
    func isOutdated(by now: StoreFiles, _ access: UntouchedAccess) -> Bool {
        switch access {
        // SQLite itself notices changes of the content.
        case .shared: store?.id != now.store?.id || shm?.id != now.shm?.id
        case .still, .immutable: self != now
        }
    }

    /// Reads through descriptors that stay open: closing one would drop the locks of this process.
    func access(to path: String) throws -> UntouchedAccess {
        // SQLite would remove the log of an empty store.
        guard let store, store.size >= 512 else { throw Self.noDatabase(path) }
        let probe = try Self.probe(path)
        defer { WriterProbes.shared.keep(probe) }
        guard let isLogged = probe.withStore({ Self.isInLogMode($0) }) else { throw Self.noDatabase(path) }
        if try shm != nil && probe.isIndexUsed() { return .shared }
        if let wal, wal.size > 0 { return .still }
        return isLogged ? .immutable : .shared
    }

    private static func noDatabase(_ path: String) -> HistoryError {
        HistoryError(
            .storeCorrupt, "\"\(path)\" is not an SQLite database.",
            hint: "Check the path. Decrypt an encrypted store first.")
    }

    private static func probe(_ path: String) throws -> WriterProbe {
        do {
            return try WriterProbes.shared.take(path)
        } catch {
            throw HistoryError(
                error.code == .missing ? .storeMissing : .storeUnreadable,
                "The store \"\(path)\" cannot be opened: \(error)",
                hint: AccessAdvice(path)?.text() ?? "Check the permissions of the file and its folder.",
                cause: error)
        }
    }

    /// Whether the store's header says that it has a write-ahead log; nil if it is no SQLite header.
    private static func isInLogMode(_ descriptor: Int32) -> Bool? {
        var header = [UInt8](repeating: 0, count: 20)
        guard pread(descriptor, &header, header.count, 0) == header.count,
            header.starts(with: "SQLite format 3\0".utf8)
        else { return nil }
        // The write version and the read version (https://www.sqlite.org/fileformat.html, section 1.3.3).
        return header[18] == 2 || header[19] == 2
    }
}
