import Glibc
package import HistoryConfiguration
import PersistentHistory

/// The space in a folder, which no data from a stream may fill.
package enum FreeSpace {
    /// The data exceed half of the free space: try again when there is more.
    struct Lack: Error, CustomStringConvertible {
        let needed: Int
        let folder: String
        var isOfSnapshot = false

        var description: String {
            "No space left in \"\(folder)\": \(needed) bytes are more than half of what is free"
        }
    }

    /// Half of the free space, in bytes.
    package static func half(of folder: String) -> Int {
        var status = statvfs()
        guard statvfs(folder, &status) == 0 else { return .max }
        let (bytes, isOver) = Int(clamping: status.f_bavail).multipliedReportingOverflow(
            by: Int(clamping: status.f_frsize))
        return isOver ? .max : bytes / 2
    }
}

extension NATSConfiguration.Following {
    /// The mirror's folder, where its data take space.
    package var folder: String { PathNames.parent(of: path) }
}
