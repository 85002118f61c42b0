import Foundation
import TestSupport
import Testing

/// One mistake of each kind, through the process: status 78 and the exact lines.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct CheckConfigTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let what: String
        var configuration =
            #"{"version": 1, "stores": [{"name": "a", "path": "a.sqlite", "authors": [{"name": "M"}]}], "plugins": ["p.json"]}"#
        var manifest =
            #"{"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [{"name": "h", "kind": "observer"}]}]}"#
        /// Without the folder and `error: `.
        let lines: [String]
        var testDescription: String { what }
    }

    private static let mistakes = [
        Mistake(
            what: "no JSON", configuration: "{\n  \"version\": 1,\n  oops }",
            lines: [#"historyd.json:3:3: expected a key in double quotes, found "o""#]),
        Mistake(
            what: "unknown key",
            configuration: #"{"version": 1, "stores": [{"name": "a", "path": "a.sqlite", "autors": []}]}"#,
            lines: [
                #"historyd.json:1:61: stores[0].autors: unknown key; did you mean "authors"? Allowed: name, path, entities, authors, unlistedAuthors, cleanUnlisted, includingMirroring, mirroringAuthors, clean, poll, healthyLag, autoStart, mirror, source, folder, pattern, recursive, maximumStores, keepState, rest, metricsPerStore"#
            ]),
        Mistake(
            what: "wrong type, and a name twice",
            configuration: """
                {"version": 1, "stores": [
                  {"name": "a", "path": 7, "authors": [{"name": "M"}, {"name": "M"}]}]}
                """,
            lines: [
                #"historyd.json:2:25: stores[0].path: expected a path, found 7"#,
                #"historyd.json:2:64: stores[0].authors[1].name: author "M" is already given at historyd.json:2:49"#,
            ]),
        Mistake(
            what: "wrong duration",
            configuration:
                #"{"version": 1, "stores": [{"name": "a", "path": "a", "clean": {"strategy": "byDuration", "seconds": "7 days"}}]}"#,
            lines: [
                #"historyd.json:1:101: stores[0].clean.seconds: expected a duration: seconds, or text such as "500ms", "5s", "3m", "2h" or "7d", found "7 days""#
            ]),
        Mistake(
            what: "missing key",
            configuration: #"{"version": 1, "stores": [{"name": "a"}]}"#,
            lines: [
                #"historyd.json:1:27: stores[0].path: missing, expected a path, or a "folder" of stores"#
            ]),
        Mistake(
            what: "missing manifest",
            configuration: #"{"version": 1, "stores": [{"name": "a", "path": "a"}], "plugins": ["none.json"]}"#,
            lines: [
                #"historyd.json:1:68: plugins[0]: "none.json" cannot be read: No such file or directory. Create it, or configure another path"#
            ]),
        Mistake(
            what: "references",
            manifest: """
                {"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [
                  {"name": "h", "kind": "observer", "store": "b", "consumer": "N"},
                  {"name": "i", "kind": "merge", "before": "p/x"},
                  {"name": "j", "kind": "merge", "before": "p/h"}]}]}
                """,
            lines: [
                #"p.json:2:46: plugins[0].hooks[0].store: unknown store "b". Known: "a""#,
                #"p.json:2:63: plugins[0].hooks[0].consumer: unknown consumer "N". Known: "M""#,
                #"p.json:3:44: plugins[0].hooks[1].before: unknown merge hook "p/x"; did you mean "p/j"? Known: "p/j""#,
                #"p.json:4:44: plugins[0].hooks[2].before: expected a merge hook; "p/h" is an observer"#,
            ]),
        Mistake(
            what: "a manifest's key and choice",
            manifest:
                #"{"version": 1, "plugins": [{"name": "p", "command": [], "mode": "daemon", "hooks": [{"name": "h", "kind": "observer", "entitiy": "x"}]}]}"#,
            lines: [
                #"p.json:1:53: plugins[0].command: expected a list of a program's path and its arguments, found an empty list"#,
                #"p.json:1:65: plugins[0].mode: expected "oneshot" or "coprocess", found "daemon""#,
                #"p.json:1:119: plugins[0].hooks[0].entitiy: unknown key; did you mean "entity"? Allowed: name, kind, entity, operation, store, consumer, before, calls, properties, where, values, maximumValueBytes"#,
            ]),
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
                let lines = daemon.log.map {
                    $0.replacing(bench.folder.path + "/", with: "").replacing(
                        "error: ", with: "", maxReplacements: 1)
                }
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
            #expect(
                run.output == "\(bench.configuration) is valid: stores 1, consumers 2, plugins 1, hooks 1.\n")
            #expect(run.log == [])
            // It looks and does nothing.
            #expect(!FileManager.default.fileExists(atPath: bench.path("state")))
            #expect(
                try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'historyd%'") == "0\n")
        }
    }

    @Test("A store that is not there may come later; a path that is misspelt is seen")
    func missingStore() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(name: "gone", path: "gone.sqlite"))
            let run = try await bench.runDaemon("--check-config")
            #expect(run.status == .exited(0))
            #expect(
                run.log == [
                    "notice: Store \"gone\" would wait. There is no file \"\(bench.path("gone.sqlite"))\" yet."
                ])
        }
    }

    @Test("A file that is not there")
    func missing() async throws {
        try await withWorkbench { bench in
            let run = try await bench.runDaemon("--check-config")
            #expect(run.status == .exited(78))
            #expect(
                run.log.map { $0.replacing(bench.folder.path + "/", with: "") } == [
                    "error: historyd.json: cannot be read: No such file or directory. Create it, or configure another path; historyd.json(5) describes the file, --config selects another event=configurationInvalid"
                ])
        }
    }
}
