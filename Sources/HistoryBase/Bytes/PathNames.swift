/// The names in a path. No file is accessed.
package enum PathNames {
    /// The folder that contains a file.
    package static func parent(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The names of a path without `.`, in reverse order, to take them from the end.
    ///
    /// As bytes: `String` treats a slash and a following combining accent as one character.
    package static func inReverse(_ path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "/")).reversed().map { String(Substring($0)) }
            .filter { $0 != "." }
    }
}
