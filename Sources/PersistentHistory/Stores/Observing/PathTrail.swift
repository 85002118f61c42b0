internal import Glibc

/// How a path was followed, name by name, to the store's real file or to the first missing name.
///
/// Two equal trails mean that nothing on the way has changed in between. The names `.` and empty ones are
/// left out; symbolic links are followed where they occur.
struct PathTrail: Equatable, Sendable {
    enum Found: Equatable, Sendable {
        case folder(FileID)
        case link(FileID)
        case file(FileID)
        /// Missing, unreachable, or nothing that can be a store; with the error number, if any.
        case nothing(Int32)
    }

    /// One name looked up in one folder, whose path contains no links.
    struct Lookup: Equatable, Sendable {
        let folder: String
        let name: String
        let found: Found

        var path: String { PathTrail.join(folder, name) }
    }

    private(set) var lookups: [Lookup] = []

    /// The lookup that found the store's file.
    var store: Lookup? {
        guard let last = lookups.last, case .file = last.found else { return nil }
        return last
    }

    /// The limit of path_resolution(7).
    private static let longestChainOfLinks = 40

    /// - Parameter path: absolute.
    init(following path: String) {
        var names = PathNames.inReverse(path)
        var folder = "/"
        var links = 0
        while let name = names.popLast() {
            if name == ".." {
                folder = PathNames.parent(of: folder)
                continue
            }
            let here = Self.join(folder, name)
            var found = Self.look(at: here, isLast: names.isEmpty)
            if case .link = found {
                links += 1
                if links > Self.longestChainOfLinks { found = .nothing(ELOOP) }
            }
            lookups.append(Lookup(folder: folder, name: name, found: found))
            switch found {
            case .folder: folder = here
            case .link:
                guard let target = Self.target(of: here) else { return }
                if target.utf8.first == UInt8(ascii: "/") { folder = "/" }
                names += PathNames.inReverse(target)
            case .file, .nothing: return
            }
        }
    }

    private static func look(at path: String, isLast: Bool) -> Found {
        var status = stat()
        guard lstat(path, &status) == 0 else { return .nothing(Glibc.errno) }
        switch status.st_mode & S_IFMT {
        case S_IFLNK: return .link(FileID(status))
        case S_IFDIR: return isLast ? .nothing(EISDIR) : .folder(FileID(status))
        case S_IFREG: return isLast ? .file(FileID(status)) : .nothing(ENOTDIR)
        default: return .nothing(0)
        }
    }

    /// Nil if the link was removed meanwhile, which the next trail will show.
    private static func target(of link: String) -> String? {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Int(PATH_MAX)) { buffer in
            let count = buffer.withMemoryRebound(to: CChar.self) { characters in
                characters.baseAddress.map { readlink(link, $0, characters.count) } ?? -1
            }
            return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
        }
    }

    static func join(_ folder: String, _ name: String) -> String {
        folder == "/" ? "/" + name : folder + "/" + name
    }
}
