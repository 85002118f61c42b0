internal import CSQLiteHistory
import Glibc

/// Resolves a store's path, and decides whether its links may be followed.
///
/// A path may lead through links of an administrator or of the store's owner. But the owner of a folder
/// on the way could place a link to another user's file, which a daemon with more rights would then
/// change and copy. So each link must belong to root, to this process's user, or to the owner of the file
/// it leads to (the rule of `fs.protected_symlinks`, proc(5)).
package enum StorePath {
    /// The real path of a store, with all links resolved.
    ///
    /// - Throws: `HistoryError` with `.storeMissing`, `.storeUnreadable` or `.storeCorrupt`.
    static func resolve(_ path: String) throws(HistoryError) -> String {
        let trail = PathTrail(following: absolute(path) ?? "/" + path)
        guard let last = trail.lookups.last else { throw unusable(path, errno: ENOENT) }
        guard case .file = last.found else {
            if case .nothing(let number) = last.found, number != 0, number != EISDIR {
                throw unusable(path, errno: number)
            }
            throw HistoryError(
                .storeCorrupt, "\"\(path)\" is not a file.", hint: "A store is an SQLite database file.")
        }
        guard let owner = owner(of: last.path) else { throw unusable(path, errno: errno) }
        for lookup in trail.lookups {
            guard case .link = lookup.found else { continue }
            if LinkFreeFolders.contain(lookup.path) {
                throw HistoryError(
                    .storeUnreadable,
                    "The store \"\(path)\" is not opened: \"\(lookup.path)\" is a link, in a folder whose files are stores.",
                    hint: "Move the file there itself.")
            }
            guard let linkOwner = self.owner(of: lookup.path) else { throw unusable(path, errno: errno) }
            guard [0, geteuid(), owner].contains(linkOwner) else {
                throw HistoryError(
                    .storeUnreadable,
                    "The store \"\(path)\" is not opened: the link \"\(lookup.path)\" of user \(linkOwner) leads to a file of user \(owner).",
                    hint: "Configure the file's own path, or let root or the file's owner create the link.")
            }
        }
        return last.path
    }

    /// The path with links resolved if it leads to a file; otherwise the absolute path.
    static func real(_ path: String) -> String { withoutLinks(path) ?? absolute(path) ?? "/" + path }

    /// The path with links resolved; nil with `errno` if it leads to nothing.
    package static func withoutLinks(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The absolute path; nil if the current folder no longer exists, see `errno`.
    static func absolute(_ path: String) -> String? {
        if path.utf8.first == UInt8(ascii: "/") { return path }
        guard let folder = getcwd(nil, 0) else { return nil }
        defer { free(folder) }
        return PathTrail.join(String(cString: folder), path)
    }

    /// The owner of a file or a link.
    private static func owner(of path: String) -> uid_t? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_uid : nil
    }

    private static func unusable(_ path: String, errno number: Int32) -> HistoryError {
        let isMissing = number == ENOENT || number == ENOTDIR
        var advice = AccessAdvice(path)
        // Rights do not help if the store is missing; but a sandbox may hide it.
        if isMissing, !(advice?.isHidden ?? false) { advice = nil }
        return HistoryError(
            isMissing ? .storeMissing : .storeUnreadable,
            "The store \"\(path)\" cannot be opened: \(String(cString: strerror(number))).",
            hint: advice?.text() ?? "Check the path and the permissions of its folders.")
    }
}

/// Folders whose files count as stores by name alone. Anyone who may create files there could place a
/// link to any store that this process may open.
enum LinkFreeFolders {
    private static let folders = Locked<Set<String>>([])

    /// - Parameter folder: The path with links resolved.
    static func add(_ folder: String) { folders.withLock { _ = $0.insert(folder) } }

    static func contain(_ path: String) -> Bool {
        folders.withLock { folders in
            !folders.isEmpty && folders.contains { path.utf8.starts(with: "\($0)/".utf8) }
        }
    }
}

/// A database file that is opened only under its own name: the daemon never follows a link to a file that
/// it creates or replaces.
package enum PlainFile {
    /// The URI that makes SQLite open a file without following a link (https://www.sqlite.org/uri.html).
    ///
    /// - Parameter mayMake: Whether SQLite creates a missing file.
    package static func uri(_ path: String, mayMake: Bool, isReadOnly: Bool = false) -> String {
        guard let vfs = history_plain_vfs(), path.hasPrefix("/") else { return path }
        return uri(path, vfs: String(cString: vfs), mode: isReadOnly ? "ro" : mayMake ? "rwc" : "rw")
    }

    /// The same for another VFS.
    static func uri(_ path: String, vfs: String, mode: String = "ro") -> String {
        var escaped: [UInt8] = []
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "?"): escaped += "%3f".utf8
            case UInt8(ascii: "#"): escaped += "%23".utf8
            case UInt8(ascii: "%"): escaped += "%25".utf8
            default: escaped.append(byte)
            }
        }
        return "file:\(String(decoding: escaped, as: UTF8.self))?vfs=\(vfs)&mode=\(mode)"
    }

    /// Checks the path of one of the daemon's files: nothing may be there, or a file that it may replace.
    ///
    /// - Returns: What is wrong; nil if nothing is.
    package static func problem(at path: String) -> String? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFLNK: return "it is a symbolic link"
        default: return "it is not a file"
        }
        var folder = stat()
        let owners = stat(PathNames.parent(of: path), &folder) == 0 ? [geteuid(), folder.st_uid] : [geteuid()]
        if !owners.contains(status.st_uid) { return "the file there belongs to user \(status.st_uid)" }
        return status.st_nlink > 1 ? "the file there has other names (hard links)" : nil
    }
}
