import FoundationEssentials

/// A folder for the files of a test, which goes with it.
final class TemporaryFolder: Sendable {
    private let path = "\(FileManager.default.temporaryDirectory.path)/\(UUID().uuidString)"

    init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { "\(path)/\(name)" }
}
