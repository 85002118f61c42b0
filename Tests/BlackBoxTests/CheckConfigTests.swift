import Foundation
import TestSupport
import Testing

/// One mistake of each kind, through the process: status 78 and the exact lines.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(5)))
struct CheckConfigTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let what: String
        var configuration = #"{"version": 1, "stores": [{"name": "a", "path": "a.sqlite", "authors": [{"name": "M"}]}], "plugins": ["p.json"]}"#
        var manifest = #"{"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [{"name": "h", "kind": "observer"}]}]}"#
        /// Without the folder and `error: `.
        let lines: [String]
        var testDescription: String { what }
    }

    private static let mistakes = [
        Mistake(
            what: "no JSON", configuration: "{\n  \"version\": 1,\n  oops }",
            lines: []),
        Mistake(
            what: "unknown key",
            configuration: #"{"version": 1, "stores": [{"name": "a", "path": "a.sqlite", "autors": []}]}"#,
            lines: []),
        Mistake(
            what: "wrong type, and a name twice",
            configuration: """
                {"version": 1, "stores": [
                  {"name": "a", "path": 7, "authors": [{"name": "M"}, {"name": "M"}]}]}
                """,
            lines: []),
        Mistake(
            what: "wrong duration",
            configuration: #"{"version": 1, "stores": [{"name": "a", "path": "a", "clean": {"strategy": "byDuration", "seconds": "7 days"}}]}"#,
            lines: []),
        Mistake(
            what: "missing key",
            configuration: #"{"version": 1, "stores": [{"name": "a"}]}"#,
            lines: []),
        Mistake(
            what: "missing manifest",
            configuration: #"{"version": 1, "stores": [{"name": "a", "path": "a"}], "plugins": ["none.json"]}"#,
            lines: []),
        Mistake(
            what: "references",
            manifest: """
                {"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [
                  {"name": "h", "kind": "observer", "store": "b", "consumer": "N"},
                  {"name": "i", "kind": "merge", "before": "p/x"},
                  {"name": "j", "kind": "merge", "before": "p/h"}]}]}
                """,
            lines: []),
        Mistake(
            what: "a manifest's key and choice",
            manifest: #"{"version": 1, "plugins": [{"name": "p", "command": [], "mode": "daemon", "hooks": [{"name": "h", "kind": "observer", "entitiy": "x"}]}]}"#,
            lines: []),
    ]

    @Test("Each is told at its place", arguments: mistakes)
    func mistake(_ mistake: Mistake) async throws {
        try await withWorkbench { bench in
            try bench.folder.write("historyd.json", mistake.configuration)
            try bench.folder.write("p.json", mistake.manifest)
            for arguments in [["--check-config"], [], ["--once"]] {
                let daemon = try bench.launchDaemon(arguments, name: "check\(arguments.joined())")
                #expect(try await daemon.program.end() == .exited(78))
                #expect(daemon.program.output == "")
                let lines = daemon.log.map { $0.replacing(bench.folder.path + "/", with: "").replacing("error: ", with: "", maxReplacements: 1) }
                #expect(lines == mistake.lines.map { $0 + " event=configurationInvalid" })
            }
            #expect(!FileManager.default.fileExists(atPath: bench.path("state")))
        }
    }

    @Test("A configuration without mistakes")
    func valid() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Widget")))
            let run = try await bench.runDaemon("--check-config")
            #expect(run.status == .exited(0))
            #expect(run.output == "\(bench.configuration) is valid: stores 1, consumers 2, plugins 1, hooks 1.\n")
            #expect(run.log == [])
            // It looks and does nothing.
            #expect(!FileManager.default.fileExists(atPath: bench.path("state")))
            #expect(try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'historyd%'") == "0\n")
        }
    }

    @Test("A file that is not there")
    func missing() async throws {
        try await withWorkbench { bench in
            let run = try await bench.runDaemon("--check-config")
            #expect(run.status == .exited(78))
            #expect(run.log.map { $0.replacing(bench.folder.path + "/", with: "") } == [])
        }
    }
}
