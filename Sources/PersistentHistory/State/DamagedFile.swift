internal import Glibc
internal import Foundation

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
                hint: trouble.hint)
        }
        // It is removed a while after this, not after its last use.
        utimensat(AT_FDCWD, newPath, nil, 0)
        return newPath
    }
}
