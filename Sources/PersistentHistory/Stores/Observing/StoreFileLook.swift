internal import Glibc

/// Decides from its header alone whether a file is an SQLite database with tables
/// (https://www.sqlite.org/fileformat.html). It takes no locks and creates no file.
enum StoreFileLook {
    private static let headerSize = 108

    /// Looks at a file in an open folder.
    ///
    /// - Parameter isServed: Whether the file is served as a store. It is then not opened.
    /// - Throws: Where descriptors or memory are lacking.
    static func look(_ name: String, in folder: Int32, isServed: Bool = false) throws(ObserverError)
        -> FolderContents.Look
    {
        var status = stat()
        guard fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return .nothing }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFLNK: return .unfit(.link)
        default: return .unfit(.notAFile)
        }
        if status.st_nlink == 0 { return .nothing }
        // Closing a descriptor of the file would drop this process's locks (fcntl(2)): it may be served
        // under an earlier name.
        if isServed || status.st_nlink == 1 && ServedFiles.shared.isServed(FileID(status)) { return .store }
        if status.st_nlink > 1 { return .unfit(.otherNames) }
        if status.st_size == 0 { return .unready }
        var wal = stat()
        let hasFrames =
            fstatat(folder, name + "-wal", &wal, AT_SYMLINK_NOFOLLOW) == 0 && wal.st_size > firstFrame
        let file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        // Opening it as a store reports what to do about its permissions.
        guard file >= 0 else {
            let number = errno
            try ObserverError.checkNoLack(number, to: "open \"\(name)\"")
            return number == ENOENT ? .nothing : number == EACCES ? .store : .unready
        }
        defer { close(file) }
        var header = [UInt8](repeating: 0, count: headerSize)
        let count = pread(file, &header, header.count, 0)
        guard count >= 0 else { return .unready }
        return look(Array(header.prefix(count)), size: Int64(status.st_size), hasFrames: hasFrames)
    }

    /// The sizes of the log's header and of the first frame's header.
    private static let firstFrame = 32 + 24

    /// - Parameters:
    ///   - header: The first bytes of the file.
    ///   - size: The size of the file.
    ///   - hasFrames: Whether its write-ahead log has any content.
    static func look(_ header: [UInt8], size: Int64, hasFrames: Bool) -> FolderContents.Look {
        let magic = Array("SQLite format 3\0".utf8)
        guard header.starts(with: magic.prefix(header.count)) else { return .unfit(.notADatabase) }
        guard header.count == headerSize else { return .unready }
        func number(_ range: Range<Int>) -> Int64 { header[range].reduce(0) { $0 << 8 | Int64($1) } }
        let pageSize = number(16..<18) == 1 ? 65_536 : number(16..<18)
        // The size in the header is valid if it matches the change counter. A shorter file is being
        // copied.
        if number(24..<28) == number(92..<96), size < number(28..<32) * pageSize { return .unready }
        let isLogged = header[18] == 2 || header[19] == 2
        // The root of the schema table is the first page: an inner page has others below it.
        let hasSchema = header[100] == 5 || header[100] == 13 && number(103..<105) > 0
        return hasSchema || isLogged && hasFrames ? .store : .unready
    }
}
