import Foundation
import TestSupport
import Testing

/// Plugins at hand: what an operator does with them while the daemon runs.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PluginVerbTests {
    /// Answers everything, and says which version it is.
    private func script(_ version: Int) -> String {
        """
        import json, os, sys
        print('version \(version)', os.environ.get('TOKEN', ''), file=sys.stderr, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            result = 'goOn' if request['method'] == 'merge' else None
            print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)
        """
    }

    @Test("A coprocess whose script has changed is started again by reload, and another is not")
    func changedScript() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("answer.py", script(1))
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(command: [Products.python, bench.path("answer.py")]),
                    PluginSetup(name: "other"),
                ])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("version 1")
            #expect(try await bench.steer("reload").contains("plugins unchanged: audit, other"))
            try bench.folder.write("answer.py", script(2))
            let reload = try await bench.steer("reload")
            #expect(reload.contains("plugins changed: audit\n"), "\(reload)")
            #expect(reload.contains("plugins unchanged: other\n"), "\(reload)")
            try await daemon.logged("version 2")
            let restart = try await bench.steer("plugins", "restart", "audit")
            #expect(restart == "audit runs again\n")
            try await daemon.logged("version 2", times: 2)
            #expect(try await bench.ctl("plugins", "restart", "nobody").status == .exited(66))
            let list = try await bench.report("plugins", "list")["plugins"]
            #expect(list.list.compactMap { $0["name"].text } == ["audit", "other"])
            #expect(list[0]["state"].text == "running" && list[0]["hooks"].texts == ["audit/all"])
            try await daemon.stop()
        }
    }

    @Test(
        "A sample call shows the call, standard error, and what came of it",
        arguments: ["coprocess", "oneshot"])
    func sampleCall(_ mode: String) async throws {
        try await withWorkbench { bench in
            let failing = "import sys; sys.stdin.readline(); print('one\\ntwo', file=sys.stderr); sys.exit(3)"
            try bench.folder.write("fail.py", failing)
            try bench.folder.write(
                "answer.py", mode == "coprocess" ? script(1) : "import sys; print('hello', file=sys.stderr)")
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        name: "good", command: [Products.python, bench.path("answer.py")], mode: mode,
                        hooks: [
                            #"{"name": "all", "kind": "observer", "entity": "person"}"#,
                            #"{"name": "dedup", "kind": "merge"}"#,
                        ]),
                    PluginSetup(name: "bad", command: [Products.python, bench.path("fail.py")], mode: mode),
                ])
            let daemon = try await bench.startDaemon()
            let good = try await bench.ctl("plugins", "test", "good")
            #expect(good.status == .exited(0), "\(good)")
            #expect(good.output.contains("\"entityName\":\"person\""), "\(good)")
            // An index that takes it in keeps all that it has.
            #expect(good.output.contains("\"objectID\":{\"id\":-1}") && good.output.contains("\"sample\":true"))
            #expect(
                good.output.contains("standard error: \(mode == "coprocess" ? "version 1" : "hello")"),
                "\(good)")
            #expect(good.output.contains("succeeded after"), "\(good)")
            for member in ["token", "author", "context", "processID", "timestamp"] {
                #expect(good.output.contains("\"\(member)\":"), "\(member): \(good)")
            }
            let merge = try await bench.report("plugins", "test", "good", "dedup")
            #expect(merge["succeeded"].bool == true && merge["result"].text == "goOn", "\(merge)")
            let bad = try await bench.ctl("plugins", "test", "bad")
            #expect(bad.status == .exited(75), "\(bad)")
            #expect(bad.output.contains("ended with status 3: one / two"), "\(bad)")
            #expect(try await bench.ctl("plugins", "test", "good", "none").status == .exited(66))
            // Neither history nor counts have changed by it.
            #expect(try await bench.report("hooks", "list")["hooks"][0]["calls"].int == 0)
            // What is to be sent can be seen before: a past transaction's call as it was, but for its delivery.
            let token = try await bench.commit("INSERT INTO person (id, name) VALUES (7, 'Ada')")
            let past = try await bench.report("plugins", "test", "good", "--token", token, "--dry-run")
            #expect(past["succeeded"].bool == nil && past["errors"].list.isEmpty, "\(past)")
            let call = try #require(past["call"].text)
            #expect(call.contains(#""objectID":{"id":7}"#) && call.contains(#""token":"\#(token)""#), "\(call)")
            #expect(call.contains(#""sample":true"#) && call.contains(#""delivery":"test-"#), "\(call)")
            #expect(try await bench.ctl("plugins", "test", "good", "--token", token).status == .exited(0))
            let foreign = try await bench.ctl("plugins", "test", "good", "--token", "\(UUID().uuidString):1")
            #expect(foreign.status == .exited(65), "\(foreign)")
            try await daemon.stop()
        }
    }

    @Test("What a coprocess wrote last stands in the failure's message") func lastWords() async throws {
        try await withWorkbench { bench in
            try bench.folder.write(
                "fail.py",
                "import sys; sys.stdin.readline(); print('a\\nb\\nc\\nd', file=sys.stderr); sys.exit(3)")
            try bench.configure(
                StoreSetup(), plugins: [PluginSetup(command: [Products.python, bench.path("fail.py")])])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            let line = try await daemon.logged("event=hookFailed")
            #expect(line.contains("ended with status 3: a / b / c / d. "), "\(line)")
            try await daemon.stop()
        }
    }

    @Test("Commands that cannot be started are refused by --check-config and by reload") func refused()
        async throws
    {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try bench.folder.write("plain", "#!/bin/sh\n")
            try bench.folder.write("nothing", "print(1)\n", executable: true)
            for (command, problem) in [
                ("missing", "No such file"), ("plain", "chmod +x"), ("nothing", "interpreter"),
            ] {
                try bench.configure(StoreSetup(), plugins: [PluginSetup(command: [bench.path(command)])])
                let check = try await bench.runDaemon("--check-config")
                #expect(check.status == .exited(78))
                #expect(
                    check.log.contains { $0.contains("plugins[0].command[0]") && $0.contains(problem) },
                    "\(check.log)")
                let reload = try await bench.ctl("reload")
                #expect(reload.status == .exited(78) && reload.errors.contains(problem), "\(reload)")
            }
            try await daemon.stop()
        }
    }

    @Test("A secret comes from the service manager, by name") func secret() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("answer.py", script(1))
            try FileManager.default.createDirectory(
                atPath: bench.path("credentials"), withIntermediateDirectories: false)
            try bench.configure(StoreSetup(), plugins: [])
            try bench.folder.write(
                "plugins.json",
                #"{"version": 1, "plugins": [{"name": "audit", "command": ["\#(Products.python)", "\#(bench.path("answer.py"))"], "mode": "coprocess", "environment": {"TOKEN": {"credential": "api"}}, "hooks": [{"name": "all", "kind": "observer"}]}]}"#
            )
            let wrapper = ["/usr/bin/env", "CREDENTIALS_DIRECTORY=\(bench.path("credentials"))"]
            let daemon = try bench.launchDaemon(under: wrapper)
            let line = try await daemon.logged("event=pluginUnstartable")
            #expect(line.contains("LoadCredential=api:"), "\(line)")
            // At once, as a service manager does: the daemon may read it at any moment.
            try bench.folder.write("api", "s3cret\n")
            try FileManager.default.moveItem(atPath: bench.path("api"), toPath: bench.path("credentials/api"))
            try await daemon.logged("version 1 s3cret")
            try await daemon.stop()
        }
    }
}
