import FoundationEssentials
import Testing
import TestSupport

@testable import HistoryConfiguration

/// The files in `config/`, which people begin with.
@Suite struct SampleTests {
    @Test func theSampleConfigurationLoads() throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "historyd.json", sample("historyd.json").replacing("/etc/historyd/", with: folder.path + "/"))
        try folder.write("plugins.d/audit.json", sample("plugins.d/audit.json"))
        for name in ["dedup", "webhook"] {
            try folder.write("plugins.d/\(name).json", sample("examples/\(name).json"))
        }
        try folder.write("conf.d/tenants.json", sample("examples/tenants.json"))
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        #expect(loaded.configuration.stores.map(\.name) == ["contacts"])
        #expect(loaded.configuration.templates.map(\.folder) == ["/srv/tenants"])
        #expect(loaded.plugins.map(\.name) == ["audit", "announce", "dedup", "webhook"])
        for plugin in loaded.plugins {
            let program = try #require(plugin.command.first)
            #expect(program.hasPrefix("/usr/lib/historyd/plugins/"))
            let name = program.replacing("/usr/lib/historyd/", with: "")
            #expect(
                FileManager.default.isExecutableFile(atPath: sources.appending(path: "config/\(name)").path))
        }
    }

    @Test func theManifestInTheDocumentationLoads() throws {
        let folder = try TemporaryFolder()
        let page = sources.appending(path: "Sources/PersistentHistory/PersistentHistory.docc/Plugins.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let block = try #require(text.firstMatch(of: /(?s)```json\n(.*?)```/)?.1)
        try folder.write(
            "historyd.json",
            sample("historyd.json").replacing("/etc/historyd/", with: folder.path + "/"))
        try folder.write("plugins.d/audit.json", String(block))
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        #expect(MergeOrder.pipeline(of: loaded.plugins).map(\.fullName) == ["audit/screen", "audit/last"])
    }

    private func plugin(
        _ name: String, _ environment: [String: String?], _ input: String
    ) async throws -> (status: Bool, output: String, log: String) {
        let program = sources.appending(path: "config/plugins/\(name)").path
        let outcome = try await Command(program, input: input, environment: environment).run()
        return (outcome.status == .exited(0), outcome.output, outcome.errors)
    }

    private static let hasFlock = FileManager.default.isExecutableFile(atPath: "/usr/bin/flock")
    private static let hasPython = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

    @Test(.enabled(if: hasFlock, "util-linux (flock) is not installed."))
    func theAuditPluginAppendsEachCallOnALineOfItsOwn() async throws {
        let folder = try TemporaryFolder()
        let lines = (0..<4).map { "{\"call\":\($0),\"text\":\"\(String(repeating: "x", count: 100_000))\"}\n" }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for line in lines {
                group.addTask { try await plugin("audit.sh", ["AUDIT_LOG": folder.file("log")], line).status }
            }
            for try await succeeded in group { #expect(succeeded) }
        }
        let log = try String(contentsOfFile: folder.file("log"), encoding: .utf8)
        #expect(log.split(separator: "\n").sorted() == lines.map { $0.dropLast() })

        #expect(try await plugin("audit.sh", ["AUDIT_LOG": nil], "").status == false)
        #expect(try await plugin("audit.sh", ["AUDIT_LOG": folder.file("none/log")], "").status == false)
    }

    @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed."))
    func theAnnouncePluginAnswersEveryRequest() async throws {
        let transactions =
            #"[{"token":"s:1","author":"Bad","changes":[]},{"token":"s:2","author":"Gööd","changes":[]}]"#
        let requests = [
            #"{"jsonrpc":"2.0","id":1,"method":"observe","params":{"store":"s","consumer":"A","transaction":{"author":null},"contexts":[{"operation":"insert","entityName":"person"},{"operation":"insert","entityName":"person"}]}}"#,
            #"{"jsonrpc":"2.0","id":2,"method":"merge","params":{"transactions":\#(transactions)}}"#,
            #"{"jsonrpc":"2.0","id":3,"method":"merge","params":{"transactions":[]}}"#,
            #"{"jsonrpc":"2.0","id":4,"method":"sing","params":{}}"#,
            #"{"jsonrpc":"2.0","id":5,"method":"observe","params":{}}"#,
            "nonsense",
        ]
        let answers = try await plugin(
            "announce.py", ["ANNOUNCE_REJECT": "Bad,Worse", "LC_ALL": "C"],
            requests.joined(separator: "\n") + "\n")
        #expect(answers.status)
        #expect(answers.log == "an unknown author: 2 insert of person in s, for A\n")
        #expect(
            answers.output == """
                {"jsonrpc": "2.0", "id": 1, "result": null}
                {"jsonrpc": "2.0", "id": 2, "result": {"verdict": "goOn", "reject": ["s:1"]}}
                {"jsonrpc": "2.0", "id": 3, "result": "goOn"}
                {"jsonrpc": "2.0", "id": 4, "error": {"code": -32601, "message": "Unknown method 'sing'."}}
                {"jsonrpc": "2.0", "id": 5, "error": {"code": -32603, "message": "KeyError: 'contexts'"}}
                {"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"}}

                """)
    }
}
