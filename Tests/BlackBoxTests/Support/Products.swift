import Foundation

/// What the build made, and the programs of the system that these tests need.
enum Products {
    /// The folder of the test binary, where the daemon is too.
    static let folder = (URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().path as NSString)
        .deletingLastPathComponent

    static var historyd: String { folder + "/historyd" }
    static var historyctl: String { folder + "/historyctl" }

    static let python = "/usr/bin/python3"
    static let shell = "/usr/bin/sqlite3"
    static let compiler = "/usr/bin/cc"

    /// What the tests here can not do without: other processes, in other languages.
    static let areThere = [historyd, historyctl, python, shell, compiler].allSatisfy(
        FileManager.default.isExecutableFile)
    static let missing = "needs the built historyd and historyctl, python3, sqlite3 and cc"

    /// The loadable extension, compiled as it is shipped: without the Swift runtime.
    static func historyExtension() async throws -> String { try await ExtensionBuild.shared.path() }
}

private actor ExtensionBuild {
    static let shared = ExtensionBuild()
    private var build: Task<String, any Error>?

    func path() async throws -> String {
        let build = build ?? Task { try await Self.compile() }
        self.build = build
        return try await build.value
    }

    private static func compile() async throws -> String {
        let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/CSQLiteHistory").standardizedFileURL.path
        // SQLite makes the entry point's name of the file's (https://www.sqlite.org/loadext.html).
        let folder = Products.folder + "/blackbox"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let path = folder + "/libhistory.so"
        let part = folder + "/libhistory-\(getpid())"
        defer { for suffix in ["", ".out", ".err"] { unlink(part + suffix) } }
        try await RunningProgram(
            [
                Products.compiler, "-O2", "-fPIC", "-shared", "-o", part, sources + "/history.c",
                "-I" + sources + "/include",
            ], files: part
        ).succeed()
        // Another test process may do the same: neither sees half a file.
        guard rename(part, path) == 0 else {
            throw RunningProgram.Failure(description: "\(part) could not be renamed")
        }
        return path
    }
}
