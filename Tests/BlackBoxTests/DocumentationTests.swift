import Foundation
import TestSupport
import Testing

/// Every sample of the README and of the pages is run, in order, in a home of its own for each page:
/// Tests/Tools/Documentation/pages.py says how.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct DocumentationTests {
    private static let catalog = "Sources/PersistentHistory/PersistentHistory.docc/"

    static let pages: [String] = {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: Sources.path(catalog))) ?? []
        return ["README.md"] + files.filter { $0.hasSuffix(".md") }.sorted().map { catalog + $0 }
    }()

    @Test func thePagesAreThere() { #expect(Self.pages.count > 15) }

    @Test(.enabled(if: ClientPackages.areThere, ClientPackages.missing), arguments: pages)
    func samples(_ page: String) async throws {
        _ = try await BuiltProducts.libhistory()
        let folder = try TemporaryFolder()
        for product in ["historyd", "historyctl", "historyd-nats"] {
            try FileManager.default.createSymbolicLink(
                atPath: folder.file(product), withDestinationPath: BuiltProducts.path(product))
        }
        try FileManager.default.createSymbolicLink(
            atPath: folder.file("libhistory.so"), withDestinationPath: try await BuiltProducts.libhistory())
        let output = try await Command(
            ClientPackages.python,
            [
                Sources.path("Tests/Tools/Documentation/pages.py"), "--programs", folder.path,
                Sources.path(page),
            ],
            limit: .seconds(300)
        ).succeed()
        print(output)
    }

    /// Whatever a user of a library sees is explained, and links lead somewhere: DocC's warnings are errors.
    @Test(.enabled(if: Toolchain.hasDocC, "needs Swift's docc on the PATH"))
    func docC() async throws {
        let folder = try TemporaryFolder()
        try await Command(
            "/bin/sh",
            [
                "-c",
                "cd \"$1\" && exec Tests/Tools/Documentation/build-docs swift \"$2\" \"$3\" HistoryBase PersistentHistory HistoryFeed",
                "sh", Sources.path("."), Self.catalog, folder.file("docs"),
            ]
        ).succeed()
    }

    /// What is read first stays short.
    @Test func theReadmeHasAtMost200Lines() throws {
        #expect(
            try Sources.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 201)
    }
}

private enum Toolchain {
    static let hasDocC: Bool = {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        return folders.contains { FileManager.default.isExecutableFile(atPath: "\($0)/docc") }
    }()
}
