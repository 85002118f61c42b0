internal import Foundation
import GRDB
internal import Glibc

/// What is wrong with the state folder, or with a database in it. Each has a remedy of its own.
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

    /// What an error of SQLite means, where that is known from the error alone. (A full disk may also show
    /// as a -shm that cannot be made.)
    init?(_ code: ResultCode) {
        switch code.primaryResultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged
        case .SQLITE_FULL: self = .full
        case .SQLITE_READONLY: self = .readOnly
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .locked
        default: return nil
        }
    }

    /// What keeps this process from writing in a folder.
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

    /// Whether this user may not use a database that is there, or a file beside it.
    fileprivate static func isClosed(_ database: String) -> Bool {
        ["", "-wal", "-shm"].contains { access(database + $0, R_OK | W_OK) != 0 && errno == EACCES }
    }
}

extension HistoryError {
    /// Whether the daemon's own state is the trouble, and not a store.
    package var isOfState: Bool {
        switch code {
        case .stateFull, .stateReadOnly, .stateDamaged, .stateNotPermitted, .stateUnusable: true
        default: false
        }
    }

    /// A file of the state folder cannot be used.
    ///
    /// - Parameter what: With its name: `The kept pauses in "…" cannot be read`.
    package static func stateFile(_ path: String, _ what: String, _ error: SystemError) -> HistoryError {
        let trouble = StateTrouble(errno: error.number)
        return HistoryError(trouble.code, "\(what): \(error).", hint: trouble.hint(at: path), cause: error)
    }

    /// A database of the state cannot be used.
    static func state(_ path: String, _ error: DatabaseError) -> HistoryError {
        if error.resultCode == .SQLITE_CANTOPEN, DescriptorLimit.isReached {
            return .tooManyFiles("The state database \"\(path)\" cannot be used", cause: error)
        }
        let ofFolder = StateTrouble(folder: PathNames.parent(of: path))
        var trouble = StateTrouble(error.extendedResultCode) ?? ofFolder ?? .unusable
        // SQLite says the same of a folder that this user may not write, in which it makes files.
        let isRefused = trouble == .readOnly || trouble == .unusable
        if isRefused, ofFolder == .notPermitted || StateTrouble.isClosed(path) { trouble = .notPermitted }
        let said = error.message ?? "SQLite result \(error.extendedResultCode.rawValue)"
        return HistoryError(
            trouble.code, "The state database \"\(path)\" cannot be used: \(said).",
            hint: trouble.hint(at: path),
            cause: trouble == .damaged ? DamagedFile(path: path, cause: error) : error)
    }
}

/// A file of the state folder that is damaged: the cause of a `HistoryError` with `.stateDamaged`.
package struct DamagedFile: Error {
    let path: String
    /// What was found in it.
    let cause: any Error

    /// Puts a damaged file out of the way, so that it can be made again; it is kept for rescuing what
    /// is in it, under a name with the time, as of now.
    ///
    /// - Parameter path: A database's `-wal` and `-shm` go with it.
    /// - Returns: Where it is now.
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
        // It is removed a while after this, not after its last use.
        utimensat(AT_FDCWD, newPath, nil, 0)
        return newPath
    }
}
