import Glibc
import PersistentHistory

/// Determines whether two paths name the same file, even if it does not exist yet.
///
/// Only links of root and of this process's user are followed. A user that can write to a folder on the path
/// could otherwise link to another configured file, and so make the whole configuration invalid. Such a link is
/// checked when the file is opened, and affects only that store. The same applies to a path whose disk does not
/// answer: it is compared as written, because nothing starts before all paths are compared.
enum FileIdentity {
    /// How long to wait for a path's disk.
    private static let timeout: Duration = .milliseconds(500)

    /// The path without links, `.` and `..`.
    static func of(_ path: String) -> String { identity(path) { resolve(path, followsLast: true) } }

    /// The same for a file that is never opened through a link in its last component.
    static func ofName(_ path: String) -> String { identity(path) { resolve(path, followsLast: false) } }

    private static func identity(_ path: String, _ resolve: @escaping @Sendable () -> String) -> String {
        BlockingThreads.shared.result(within: timeout, resolve) ?? asWritten(path)
    }

    private static func asWritten(_ path: String) -> String {
        var folder: [String] = []
        for name in PathNames.inReverse(path).reversed() {
            if name == ".." { _ = folder.popLast() } else { folder.append(name) }
        }
        return absolute(folder)
    }

    /// The limit of path_resolution(7).
    private static let longestChainOfLinks = 40

    private static func resolve(_ path: String, followsLast: Bool) -> String {
        var names = PathNames.inReverse(path)
        var folder: [String] = []
        var links = 0
        while let name = names.popLast() {
            if name == ".." {
                _ = folder.popLast()
                continue
            }
            folder.append(name)
            guard followsLast || !names.isEmpty, links < longestChainOfLinks,
                let target = target(of: absolute(folder))
            else { continue }
            links += 1
            if target.utf8.first == UInt8(ascii: "/") { folder = [] } else { folder.removeLast() }
            names += PathNames.inReverse(target)
        }
        return absolute(folder)
    }

    private static func absolute(_ names: [String]) -> String { "/" + names.joined(separator: "/") }

    /// Nil if it is not a link, or is not followed.
    private static func target(of link: String) -> String? {
        var status = stat()
        guard lstat(link, &status) == 0, status.st_mode & S_IFMT == S_IFLNK,
            status.st_uid == 0 || status.st_uid == geteuid()
        else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
            let count = buffer.baseAddress.map { readlink(link, $0, buffer.count) } ?? -1
            guard count > 0 else { return nil }
            return String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
    }
}
