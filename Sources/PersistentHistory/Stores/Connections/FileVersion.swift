internal import CPlatform
internal import Glibc

/// Shows from outside that a file was written or replaced.
struct FileVersion: Sendable, Equatable {
    let id: FileID
    let size: Int64
    private let seconds: Int
    private let nanoseconds: Int

    /// Nil if there is no file.
    init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        id = FileID(status)
        size = Int64(status.st_size)
        (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
    }

    /// When the file was last written, in seconds since 1970.
    var modifiedAt: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}
