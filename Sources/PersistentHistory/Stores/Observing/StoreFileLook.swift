internal import Glibc

/// Whether a file is an SQLite database with tables in it, by its header alone (https://www.sqlite.org/fileformat.html):
/// nothing is locked, and no file is created beside it.
enum StoreFileLook {
    private static let headerSize = 108

    /// Looks at a file in a folder that is open.
    ///
    /// - Parameter isServed: Whether it is served as a store: then it is not opened.
    static func look(_ name: String, in folder: Int32, isServed: Bool = false) -> FolderContents.Look {
        var status = stat()
        guard fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return .nothing }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFLNK: return .unfit(.link)
        default: return .unfit(.notAFile)
        }
        if status.st_nlink == 0 { return .nothing }
        // Closing a descriptor of it would drop the locks that this process has (fcntl(2)): it may be served under the
        // name that it had.
        if isServed || status.st_nlink == 1 && ServedFiles.shared.isServed(FileID(status)) { return .store }
        if status.st_nlink > 1 { return .unfit(.otherNames) }
        if status.st_size == 0 { return .unready }
        var wal = stat()
        let hasFrames =
            fstatat(folder, name + "-wal", &wal, AT_SYMLINK_NOFOLLOW) == 0 && wal.st_size > firstFrame
        let file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        // Whoever opens it as a store says what is to be done about its permissions.
        guard file >= 0 else { return errno == ENOENT ? .nothing : errno == EACCES ? .store : .unready }
        defer { close(file) }
        var header = [UInt8](repeating: 0, count: headerSize)
        let count = pread(file, &header, header.count, 0)
        guard count >= 0 else { return .unready }
        return look(Array(header.prefix(count)), size: Int64(status.st_size), hasFrames: hasFrames)
    }

    /// The log's header and the first frame's.
    private static let firstFrame = 32 + 24

    /// - Parameters:
    ///   - header: The first bytes.
    ///   - size: Of the file.
    ///   - hasFrames: Whether there is a write-ahead log with something in it.
    static func look(_ header: [UInt8], size: Int64, hasFrames: Bool) -> FolderContents.Look {
        let magic = Array("SQLite format 3\0".utf8)
        guard header.starts(with: magic.prefix(header.count)) else { return .unfit(.notADatabase) }
        guard header.count == headerSize else { return .unready }
        func number(_ range: Range<Int>) -> Int64 { header[range].reduce(0) { $0 << 8 | Int64($1) } }
        let pageSize = number(16..<18) == 1 ? 65_536 : number(16..<18)
        // The size in the header counts where the change counter says so. A file that is shorter is being copied.
        if number(24..<28) == number(92..<96), size < number(28..<32) * pageSize { return .unready }
        let isLogged = header[18] == 2 || header[19] == 2
        // The schema is a table whose root is the first page: an inner page has others below it.
        let hasSchema = header[100] == 5 || header[100] == 13 && number(103..<105) > 0
        return hasSchema || isLogged && hasFrames ? .store : .unready
    }
}
