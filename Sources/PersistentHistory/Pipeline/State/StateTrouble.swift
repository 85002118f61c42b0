internal import Foundation
import GRDB
internal import Glibc

/// What is wrong with the state folder, or with a database in it. Each case has its own remedy.
package enum StateTrouble: Sendable, Equatable {
    case full, readOnly, damaged, notPermitted, locked
    /// Anything else, such as an error of the disk.
    case unusable

    package init(errno number: Int32) {
        switch number {
        case ENOSPC, EDQUOT: self = .full
        case EROFS: self = .readOnly
        case EACCES, EPERM: self = .notPermitted
        default: self = .unusable
        }
    }

    /// The meaning of an SQLite error, if the error alone shows it. (A full disk may also appear as a
    /// -shm that cannot be created.)
    init?(_ code: ResultCode) {
        switch code.primaryResultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged
        case .SQLITE_FULL: self = .full
        case .SQLITE_READONLY: self = .readOnly
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .locked
        default: return nil
        }
    }

    /// What prevents this process from writing in a folder.
    init?(folder: String) {
        var system = statvfs()
        guard statvfs(folder, &system) == 0 else { return nil }
        if system.f_flag & UInt(ST_RDONLY) != 0 {
            self = .readOnly
        } else if system.f_bavail == 0 || (system.f_files > 0 && system.f_favail == 0) {
            self = .full
        } else if access(folder, W_OK) != 0 {
            self = .notPermitted
        } else {
            return nil
        }
    }

    package var code: HistoryError.Code {
        switch self {
        case .full: .stateFull
        case .readOnly: .stateReadOnly
        case .damaged: .stateDamaged
        case .notPermitted: .stateNotPermitted
        case .locked, .unusable: .stateUnusable
        }
    }

    /// What to do about it.
    ///
    /// - Parameter path: The state folder, or a file in it.
    package func hint(at path: String) -> String {
        switch self {
        case .full: "Its file system is full: free space. The daemon then continues."
        case .readOnly: "Its file system is read-only: make it writable. The daemon then continues."
        case .damaged:
            "Without it, the store's consumers start over. Its content can be rescued with sqlite3's \".recover\"."
        case .notPermitted:
            AccessAdvice(state: Self.folder(of: path))?.text() ?? "Give this user write permission there."
        case .locked:
            "Another program has locked it, and must finish or end: fuser(1) and lslocks(8) name it. The daemon then continues."
        case .unusable: "Check the kernel's log for disk errors."
        }
    }

    private static func folder(of path: String) -> String {
        var status = stat()
        let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
        return isFolder ? path : PathNames.parent(of: path)
    }

    /// Whether this user may not use an existing database, or a file beside it.
    fileprivate static func isClosed(_ database: String) -> Bool {
        ["", "-wal", "-shm"].contains { access(database + $0, R_OK | W_OK) != 0 && errno == EACCES }
    }
}

extension HistoryError {
    /// Whether the problem is in the daemon's own state, not in a store.
    package var isOfState: Bool {
        switch code {
        case .stateFull, .stateReadOnly, .stateDamaged, .stateNotPermitted, .stateUnusable: true
        default: false
        }
    }

    /// The error for an unusable file of the state folder.
    ///
    /// - Parameter what: The failure, with the file's name: `The kept pauses in "…" cannot be read`.
    package static func stateFile(_ path: String, _ what: String, _ error: SystemError) -> HistoryError {
        let trouble = StateTrouble(errno: error.number)
        return HistoryError(trouble.code, "\(what): \(error).", hint: trouble.hint(at: path), cause: error)
    }

    /// The error for a database of the state that is no longer what its path leads to. What is saved in it would be
    /// saved to no avail, and after a restart consumers would start over.
    static func stateReplaced(_ path: String) -> HistoryError {
        HistoryError(
            .stateUnusable, "The state database \"\(path)\" was removed or replaced while it was in use.",
            hint: "Put it back, or restart the daemon; without it, the store's consumers start over.")
    }

    /// The error for an unusable database of the state.
    static func state(_ path: String, _ error: DatabaseError) -> HistoryError {
        if error.resultCode == .SQLITE_CANTOPEN, DescriptorLimit.isReached {
            return .tooManyFiles("The state database \"\(path)\" cannot be used", cause: error)
        }
        if error.extendedResultCode == .SQLITE_READONLY_DBMOVED { return .stateReplaced(path) }
        let ofFolder = StateTrouble(folder: PathNames.parent(of: path))
        var trouble = StateTrouble(error.extendedResultCode) ?? ofFolder ?? .unusable
        // SQLite reports the same for a folder that this user may not write, in which it creates files.
        let isRefused = trouble == .readOnly || trouble == .unusable
        if isRefused, ofFolder == .notPermitted || StateTrouble.isClosed(path) { trouble = .notPermitted }
        let said = error.message ?? "SQLite result \(error.extendedResultCode.rawValue)"
        return HistoryError(
            trouble.code, "The state database \"\(path)\" cannot be used: \(said).",
            hint: trouble.hint(at: path),
            cause: trouble == .damaged ? DamagedFile(path: path, cause: error) : error)
    }
}

/// A damaged file of the state folder: the cause of a `HistoryError` with `.stateDamaged`.
package struct DamagedFile: Error {
    let path: String
    /// What was found in it.
    let cause: any Error

    /// Moves a damaged file aside, so that it can be created again. It is kept for recovery, under a name
    /// with this time.
    ///
    /// - Parameter path: A database's `-wal` and `-shm` are moved with it.
    /// - Returns: The new path.
    package static func moveAside(_ path: String, at time: HistoryTimestamp) throws(HistoryError) -> String {
        let digits = time.description.prefix { $0 != "." }.filter { $0 != "-" && $0 != ":" }
        var newPath = "\(path).damaged-\(digits)Z"
        var status = stat()
        while lstat(newPath, &status) == 0 { newPath += "-" }
        for suffix in ["-wal", "-shm", ""] where rename(path + suffix, newPath + suffix) != 0 {
            let number = errno
            if number == ENOENT, !suffix.isEmpty { continue }
            let trouble = StateTrouble(errno: number)
            throw HistoryError(
                trouble.code,
                "The file \"\(path)\" is damaged, and cannot be moved away: \(String(cString: strerror(number))).",
                hint: trouble.hint(at: path))
        }
        // Its age counts from now, not from its last use, so that it is not removed too soon.
        utimensat(AT_FDCWD, newPath, nil, 0)
        return newPath
    }
}
