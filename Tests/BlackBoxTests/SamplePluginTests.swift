import Foundation
import TestSupport
import Testing

/// The sample plugins, with their sample manifests, under a real daemon.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct SamplePluginTests {
    private static let config = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../../config").standardizedFileURL.path

    /// Runs the body with the sample store, and a sample manifest in which some texts are replaced.
    private func withSample(
        _ manifest: String, replacing replacements: KeyValuePairs<String, String>,
        _ body: (Workbench) async throws -> Void
    ) async throws {
        let schema = try String(contentsOfFile: Self.config + "/sample/contacts.sql", encoding: .utf8)
        try await withWorkbench(schema: schema) { bench in
            let store = StoreSetup(
                authors:
                    #"[{"name": "MainApp", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"}]}, {"name": "Other"}, {"name": "Deduplication", "batch": true}]"#
            )
            try bench.configure(store)
            var text = try String(contentsOfFile: Self.config + "/" + manifest, encoding: .utf8)
                .replacing("/usr/lib/historyd/plugins", with: Self.config + "/plugins")
                .replacing("/srv/contacts/contacts.sqlite", with: bench.store)
            for (old, new) in replacements {
                #expect(text.contains(old))
                text = text.replacing(old, with: new.replacing("BENCH", with: bench.folder.path))
            }
            try bench.folder.write("plugins.json", text)
            try await body(bench)
        }
    }

    @Test("audit.sh appends each call, as one line")
    func audit() async throws {
        try await withSample(
            "plugins.d/audit.json", replacing: ["/var/lib/historyd/audit.log": "BENCH/audit.log"]
        ) { bench in
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (1, 'Ada'), (2, 'Bob')",
                "DELETE FROM person WHERE id = 2",
                "INSERT INTO item (id, title) VALUES (1, 't')", "DELETE FROM item", as: "Widget")
            try await eventually("four lines", state: { daemon.log.joined(separator: "\n") }) {
                RunningProgram.text(bench.path("audit.log")).wholeLines.count == 4
            }
            try await daemon.stop()
            let calls = try RunningProgram.text(bench.path("audit.log")).wholeLines.map {
                try Call("ok \($0)").summary
            }
            #expect(
                calls == [
                    "audit/people MainApp 2 Widget person insert p1 p2",
                    "audit/people MainApp 3 Widget person delete p2",
                    "audit/all-deletes MainApp 3 Widget person delete p2",
                    "audit/all-deletes MainApp 5 Widget item delete p1",
                ])
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test(
        "dedup.py makes one of rows that mean the same, and everybody hears of it",
        arguments: [
            ("oldest", "2|Ada|", "2"), ("newest", "3|Ada|ada@new.org", "3"), ("merge", "2|Ada|ada@x.org", "2"),
        ])
    func deduplication(_ keep: String, _ kept: String, _ owner: String) async throws {
        let library = try await BuiltProducts.libhistory()
        try await withSample(
            "examples/dedup.json",
            replacing: [
                #""DEDUP_KEEP": "merge""#: #""DEDUP_KEEP": "\#(keep)", "DEDUP_EXTENSION": "\#(library)""#
            ]
        ) { bench in
            try await bench.sql(
                "INSERT INTO person VALUES (1, 'Ada', 'ada@x.org', '2026-01-02'), (9, 'Eve', NULL, '2026-01-01'); INSERT INTO item VALUES (1, 1, 'of Ada')"
            )
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person VALUES (2, 'Ada', NULL, '2026-01-01')", as: "Widget")
            try await daemon.logged("person name='Ada': kept")
            try await bench.write(
                "INSERT INTO person VALUES (3, 'Ada', 'ada@new.org', '2026-01-03'); INSERT INTO item VALUES (3, 3, 'also')",
                as: "Importer")
            try await daemon.logged("person name='Ada': kept", times: 2)
            let people = "SELECT id, name, email FROM person ORDER BY id"
            try await eventually("the replica", state: { daemon.log.joined(separator: "\n") }) {
                try await bench.sql(people, of: bench.path("replica.sqlite")) == "\(kept)\n9|Eve|\n"
            }
            try await daemon.stop()
            #expect(try await bench.sql(people) == "\(kept)\n9|Eve|\n")
            // What referred to a row that is gone refers to the one that was kept.
            #expect(try await bench.sql("SELECT DISTINCT person FROM item") == "\(owner)\n")
            #expect(
                try await bench.sql(
                    "SELECT DISTINCT substr(origin, -19) FROM historyd_change WHERE origin LIKE '%Dedup%'")
                    == "Deduplication\tdedup\n")
            #expect(daemon.problems(bench) == [])
        }
    }

    /// A fast subset: `make dedup-property` runs thousands.
    @Test("dedup.py leaves random stores whole, and their replicas equal")
    func deduplicationOfRandomStores() async throws {
        let folder = try TemporaryFolder()
        let seed = Int.random(in: 1...1_000_000)
        let outcome = try await Command(
            Products.python,
            [
                Sources.path("Tests/Tools/Samples/dedup_property.py"), folder.path, Products.historyctl,
                BuiltProducts.libhistory(), Self.config + "/plugins/dedup.py", "\(seed)", "12",
            ]
        ).run()
        #expect(outcome.status == .exited(0), "\(outcome)")
    }

    /// Answers 503 to the first request, and closes the connection after the second answer.
    private static let server = """
        import base64, hashlib, hmac, http.server, json, os, sys
        bench = sys.argv[1]
        log = open(bench + '/requests', 'w')
        count = 0
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            def log_message(self, *args): pass
            def do_POST(self):
                global count
                count += 1
                body = self.rfile.read(int(self.headers['Content-Length']))
                signature = 'sha256=' + hmac.new(b'secret', body, hashlib.sha256).hexdigest()
                call = json.loads(body)
                same = self.headers['Idempotency-Key'] == call['delivery']
                assert self.headers['Authorization'] == 'Basic ' + base64.b64encode('us er:pä:ss'.encode()).decode()
                print(self.path, self.headers['X-Historyd-Signature'] == signature, same,
                    call['contexts'][0]['operation'], call['contexts'][0]['objectID']['id'], file=log, flush=True)
                self.send_response(503 if count == 1 else 204)
                self.send_header('Content-Length', '0')
                self.end_headers()
                if count == 2: self.close_connection = True
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        with open(bench + '/port.part', 'w') as file: file.write(str(server.server_address[1]))
        os.rename(bench + '/port.part', bench + '/port')
        server.serve_forever()
        """

    @Test("webhook.py posts each call, in order, and again where it failed")
    func webhook() async throws {
        try await withSample(
            "examples/webhook.json",
            replacing: [
                "https://example.org/hooks/contacts":
                    "http://us%20er:pä%3Ass@127.0.0.1:PORT/höok/a%20b?x=ü&y=%41",
                #""WEBHOOK_SECRET": """#: #""WEBHOOK_SECRET": "secret""#, #""1s""#: #""50ms""#,
            ]
        ) { bench in
            try bench.folder.write("server.py", Self.server)
            _ = try bench.start([Products.python, bench.path("server.py"), bench.folder.path], "server")
            let port = try await eventually("the server's port") {
                let port = RunningProgram.text(bench.path("port"))
                return port.isEmpty ? nil : port
            }
            let manifest = RunningProgram.text(bench.path("plugins.json"))
            try bench.folder.write("plugins.json", manifest.replacing("PORT", with: port))
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (1, 'Ada')",
                "INSERT INTO person (id, name) VALUES (2, 'Bob')",
                "INSERT INTO item (id, title) VALUES (1, 't')", "DELETE FROM person WHERE id = 1", as: "Widget")
            try await eventually("the requests", state: { daemon.log.joined(separator: "\n") }) {
                RunningProgram.text(bench.path("requests")).wholeLines.last?.hasSuffix("delete 1") == true
            }
            try await daemon.logged("event=hookRecovered")
            try await daemon.stop()
            let requests = RunningProgram.text(bench.path("requests")).wholeLines
            #expect(
                requests.allSatisfy { $0.hasPrefix("/h%C3%B6ok/a%20b?x=%C3%BC&y=%41 True True ") },
                "\(requests)")
            let calls = requests.map { $0.split(separator: " ").suffix(2).joined(separator: " ") }
            #expect(calls.first == "insert 1")
            #expect(calls.suffix(3) == ["insert 1", "insert 2", "delete 1"])
            let failure = daemon.problems(bench).first
            #expect(failure?.contains("127.0.0.1 answered 503 Service Unavailable") == true, "\(failure ?? "")")
            #expect(daemon.problems(bench).count == 1)
        }
    }
}
