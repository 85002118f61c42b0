internal import CPlatform
internal import Glibc

/// What shows from outside that a file was written, or is another one.
struct FileVersion: Sendable, Equatable {
    let id: FileID
    let size: Int64
    private let seconds: Int
    private let nanoseconds: Int

    /// Nil where there is none.
    init?(of path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        id = FileID(status)
        size = Int64(status.st_size)
        (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
    }

    /// When it was written last, in seconds since 1970.
    var modifiedAt: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}
