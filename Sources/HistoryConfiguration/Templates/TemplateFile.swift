/// A file in a template's folder, by its relative path.
///
/// A user that may create files there chooses their names, and a name becomes a part of the store's name, and
/// so of log lines, metrics, paths and requests. Only ASCII letters and digits, `.`, `_`, `-`, `@`, `+` and `=`
/// are therefore allowed, and a name may not start with `.` or `-`.
package struct TemplateFile: Sendable, Hashable {
    /// Why a file is not a store.
    package enum Refusal: Error, Sendable, Hashable {
        /// The name has other characters, or starts with `.` or `-`.
        case unusableName
        case tooLong
        /// The path has too many folders.
        case tooDeep
    }

    /// The longest name of a file or a folder, in bytes.
    package static let longestName = 120
    /// How many folders a path may have.
    package static let mostFolders = 8

    /// Relative to the template's folder.
    package let path: String
    package let fileName: String

    package init(_ path: String) throws(Refusal) {
        let names = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard names.count <= Self.mostFolders + 1 else { throw .tooDeep }
        for name in names {
            guard name.count <= Self.longestName else { throw .tooLong }
            guard Self.isUsable(name) else { throw .unusableName }
        }
        self.path = path
        fileName = names.last.map { String(Substring($0)) } ?? path
    }

    private static func isUsable(_ name: Substring.UTF8View) -> Bool {
        guard let first = name.first, first != UInt8(ascii: "."), first != UInt8(ascii: "-") else {
            return false
        }
        return name.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: "._-@+=".utf8.contains(byte)
            }
        }
    }

    /// Whether it is in a subfolder.
    var isInFolder: Bool { path.utf8.count > fileName.utf8.count }

    /// The file's name without its extension.
    package var name: String {
        guard let dot = fileName.lastIndex(of: ".") else { return fileName }
        return String(fileName[..<dot])
    }
}
