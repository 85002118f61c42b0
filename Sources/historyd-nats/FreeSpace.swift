import Glibc
import HistoryConfiguration
import PersistentHistory

/// The space in a folder, which nothing from a stream may fill.
enum FreeSpace {
    /// What comes has more bytes than half of what is free: it may be taken when there is more.
    struct Lack: Error, CustomStringConvertible {
        let needed: Int
        let folder: String

        var description: String {
            "No space left in \"\(folder)\": \(needed) bytes are more than half of what is free"
        }
    }

    /// Half of what is free, in bytes.
    static func half(of folder: String) -> Int {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return .max }
        let (bytes, isOver) = Int(clamping: status.f_bavail).multipliedReportingOverflow(
            by: Int(clamping: status.f_frsize))
        return isOver ? .max : bytes / 2
    }
}

extension NATSConfiguration.Following {
    /// The mirror's folder, which has space for what goes into the mirror.
    var folder: String { StorePath.parent(of: path) }
}
