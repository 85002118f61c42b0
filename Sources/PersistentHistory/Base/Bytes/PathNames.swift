/// The names that a path consists of; nothing is looked up.
package enum PathNames {
    /// The folder that a file is in.
    package static func parent(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The names of a path without `.`, in reverse, to take them from the end.
    ///
    /// As bytes: to `String` a slash and an accent behind it are one character.
    package static func inReverse(_ path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "/")).reversed().map { String(Substring($0)) }
            .filter { $0 != "." }
    }
}
