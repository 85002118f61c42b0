import Foundation

/// The files that these tests are made from.
enum Sources {
    private static let folder = URL(fileURLWithPath: #filePath).appending(path: "../../../..")
        .standardizedFileURL

    /// - Parameter name: Relative to the package's folder.
    static func path(_ name: String) -> String { folder.appending(path: name).path }

    static func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    }
}
