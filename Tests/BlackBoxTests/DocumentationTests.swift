import Foundation
import TestSupport
import Testing

/// Every sample of the README and of the pages is run, in order, in a home of its own for each page:
/// Tests/Documentation/pages.py says how.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(10)))
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
            [Sources.path("Tests/Documentation/pages.py"), "--programs", folder.path, Sources.path(page)],
            limit: .seconds(300)
        ).succeed()
        print(output)
    }

    /// What is read first stays short.
    @Test func theReadmeHasAtMost200Lines() throws {
        #expect(
            try Sources.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 201)
    }

    /// They are made from the programs' help, the schemas and the pages: all of it is there, and roff takes it.
    @Test func manPages() async throws {
        let folder = try TemporaryFolder()
        try await Command(
            Python.path, [Sources.path("config/man/make-man"), BuiltProducts.folder, "1.2.3", folder.path]
        ).succeed()
        let pages = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(
            pages == ["historyctl.1", "historyd-feed.7", "historyd-plugins.7", "historyd.8", "historyd.json.5"])
        for (page, words) in [
            ("historyctl.1", ["historyctl dead\\-letters retry", "\\-\\-timeout", ".TP\n75\n"]),
            ("historyd.8", ["\\-\\-check\\-config", "1.2.3"]),
            ("historyd.json.5", ["unlistedAuthors", "maximumDuration"]),
            ("historyd-plugins.7", ["initialDelay", "HISTORYD_METHOD"]), ("historyd-feed.7", ["expired"]),
        ] {
            let text = try String(contentsOfFile: folder.file(page), encoding: .utf8)
            for word in words { #expect(text.contains(word), "\(page) says nothing of \(word).") }
            guard FileManager.default.isExecutableFile(atPath: "/usr/bin/groff") else { continue }
            let outcome = try await Command(
                "/usr/bin/groff", ["-man", "-Tutf8", "-Kutf8", "-ww", folder.file(page)]
            ).run()
            #expect(outcome.status == .exited(0) && outcome.errors.isEmpty, "\(page): \(outcome.errors)")
        }
    }
}
