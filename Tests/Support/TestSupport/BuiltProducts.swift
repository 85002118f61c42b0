import Foundation

/// The build's products, which are beside the test binary.
public enum BuiltProducts {
    /// The folder of the test binary, `.build/debug`.
    public static let folder =
        (URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().path as NSString)
        .deletingLastPathComponent

    public static func path(_ name: String) -> String { folder + "/" + name }

    public static var historyd: String { path("historyd") }
    public static var historyctl: String { path("historyctl") }

    /// The loadable extension: the product of `make build` or, if that is missing or older than its source, one
    /// compiled now in the same way.
    public static func libhistory() async throws -> String { try await extensionBuild.value() }

    private static let extensionBuild = ExtensionBuild()
}

/// Compiles the extension, once.
private actor ExtensionBuild {
    private var build: Task<String, any Error>?

    func value() async throws -> String {
        let build = build ?? Task { try await Self.compiled() }
        self.build = build
        return try await build.value
    }

    private static func compiled() async throws -> String {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/CSQLiteHistory").standardizedFileURL.path
        let source = sources + "/history.c"
        // SQLite finds the entry point by the file's name.
        for name in ["libhistory.so", "test-products/libhistory.so"]
        where try isNewer(BuiltProducts.path(name), than: source) {
            return BuiltProducts.path(name)
        }
        let folder = BuiltProducts.path("test-products")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        // Another test process may do the same: neither must see an incomplete file.
        let part = folder + "/\(ProcessInfo.processInfo.processIdentifier).part"
        try await Command("cc", ["-O2", "-fPIC", "-shared", "-o", part, source, "-I\(sources)/include"])
            .succeed()
        let path = folder + "/libhistory.so"
        guard rename(part, path) == 0 else {
            throw Command.Failure(description: "\(part) could not be renamed.")
        }
        return path
    }

    private static func isNewer(_ path: String, than source: String) throws -> Bool {
        guard FileManager.default.fileExists(atPath: path) else { return false }
        func date(_ path: String) throws -> Date? {
            try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }
        guard let made = try date(path), let changed = try date(source) else { return false }
        return made >= changed
    }
}
