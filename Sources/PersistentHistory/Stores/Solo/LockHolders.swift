internal import Glibc

/// Which processes hold locks that others wait for, as far as `/proc/locks` shows them (proc(5)).
enum LockHolders {
    /// The bytes of a `-shm` file that hold the read marks.
    private static let readMarks = 123...127

    /// The other processes that are in a transaction of a store in WAL mode; empty if that is not
    /// visible, as in the sandbox of `historyd.service`.
    static func ofReadMarks(of path: String) -> [String] {
        var status = stat()
        guard let store = try? StorePath.resolve(path), stat("\(store)-shm", &status) == 0,
            let locks = (try? AtomicFile.read("/proc/locks")) ?? nil
        else { return [] }
        return processes(
            in: String(decoding: locks, as: UTF8.self), inode: UInt64(status.st_ino), bytes: readMarks
        ).filter { $0 != getpid() }.map { process in
            let name = (try? AtomicFile.read("/proc/\(process)/comm")) ?? nil
            let text = name.map { String(decoding: $0, as: UTF8.self).filter { !$0.isNewline } }
            return "process \(process)" + (text.map { " (\($0))" } ?? "")
        }
    }

    /// - Parameter locks: Lines such as `5: POSIX  ADVISORY  READ 1234 08:02:5678 124 124`.
    static func processes(in locks: String, inode: UInt64, bytes: ClosedRange<Int>) -> [Int32] {
        var found: Set<Int32> = []
        for line in locks.split(separator: "\n") {
            let words = line.split(separator: " ").filter { $0 != "->" }
            guard words.count == 8, words[1] == "POSIX", let process = Int32(words[4]), process > 0,
                words[5].split(separator: ":").last == "\(inode)", let first = Int(words[6])
            else { continue }
            let last = Int(words[7]) ?? .max
            if first <= bytes.upperBound, last >= bytes.lowerBound { found.insert(process) }
        }
        return found.sorted()
    }
}
