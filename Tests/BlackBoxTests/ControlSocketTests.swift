import Foundation
import TestSupport
import Testing

/// The socket itself: who may use it, and what becomes of requests that are none.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ControlSocketTests {
    @Test("Requests that are wrong are told so, with a status and a code, and change nothing")
    func wrongRequests() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let before = try await bench.steer("hooks", "list", "--format", "json")
            let id = "00000000-0000-0000-0000-000000000000"
            let wrong: [(String, String, Int, String)] = [
                ("GET", "/", 404, "unknownRequest"), ("GET", "/v2/status", 404, "unknownRequest"),
                ("POST", "/v1/status", 405, "wrongMethod"), ("GET", "/v1/reload", 405, "wrongMethod"),
                ("GET", "/v1/status?verbose=1", 400, "badRequest"),
                ("GET", "/v1/consumers?store=nowhere", 404, "unknownStore"),
                ("GET", "/v1/wait?consumer=MainApp", 400, "badRequest"),
                (
                    "GET", "/v1/wait?consumer=Nobody&token=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1", 404,
                    "unknownConsumer"
                ),
                ("GET", "/v1/wait?consumer=MainApp&token=x", 400, "tokenInvalid"),
                (
                    "GET", "/v1/wait?consumer=MainApp&token=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1", 409,
                    "tokenForeign"
                ),
                (
                    "GET",
                    "/v1/wait?consumer=MainApp&token=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1&timeout=soon", 400,
                    "badRequest"
                ),
                (
                    "GET",
                    "/v1/wait?consumer=MainApp&consumer=MainApp&token=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1",
                    400, "badRequest"
                ),
                ("GET", "/v1/follow?after=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1", 409, "tokenForeign"),
                ("POST", "/v1/hooks", 422, "manifestRefused"),
                ("POST", "/v1/hooks?persist=yes", 400, "badRequest"),
                ("DELETE", "/v1/hooks", 400, "badRequest"),
                ("DELETE", "/v1/hooks?id=7", 400, "badRequest"),
                ("DELETE", "/v1/hooks?id=\(id)", 404, "unknownHook"),
                ("DELETE", "/v1/hooks?entity=person&operation=insert", 404, "unknownHook"),
                ("DELETE", "/v1/hooks?entity=person&operation=drop", 400, "badRequest"),
                ("POST", "/v1/pause?store=nowhere", 404, "unknownStore"),
                ("POST", "/v1/resync?context=view", 404, "unknownContext"),
                ("POST", "/v1/dead-letters/retry?id=contacts:7", 404, "unknownDeadLetter"),
                ("DELETE", "/v1/dead-letters", 400, "badRequest"),
                ("PUT", "/v1/log-level?level=loud", 400, "badRequest"),
            ]
            for (method, target, status, code) in wrong {
                let answer = try await bench.http(method, target)
                #expect(answer.status == status, "\(method) \(target): \(answer.body)")
                #expect(answer.body["error"]["code"].text == code, "\(method) \(target): \(answer.body)")
                #expect(answer.body["error"]["message"].text?.isEmpty == false)
            }
            let long = String(repeating: " ", count: (1 << 20) + 1)
            #expect(try await bench.http("POST", "/v1/hooks", body: long).status == 413)
            #expect(try await bench.steer("hooks", "list", "--format", "json") == before)
            try await daemon.stop()
        }
    }

    @Test("What is no HTTP, breaks off, or only connects does no harm and leaves nothing behind")
    func nonsense() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.steer("status")
            try await daemon.quiet()
            // SQLite may keep the descriptor of a file for its next connection: what leaks would be a socket.
            func sockets() -> Int {
                Processes.openFiles(daemon.processID).filter { $0.hasPrefix("socket:") }.count
            }
            let before = sockets()
            try await bench.startPython(
                """
                import socket
                def connect():
                    s = socket.socket(socket.AF_UNIX); s.connect('\(bench.controlSocket)'); return s
                for text in [b'\\0\\xff nonsense\\r\\n\\r\\n', b'GET', b'POST /v1/hooks HTTP/1.1\\r\\nContent-Length: 99\\r\\n\\r\\nx',
                             b'GET /v1/wait?consumer=MainApp&token=x:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n',
                             b'GET /v1/follow HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n',
                             b'GET /' + b'a' * 200000 + b' HTTP/1.1\\r\\n\\r\\n',
                             b'GET /v1/status HTTP/1.1\\r\\n' + b'X: ' + b'a' * 200000 + b'\\r\\n\\r\\n',
                             b'GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 20]:
                    for _ in range(5):
                        s = connect()
                        try: s.sendall(text)
                        except OSError: pass
                        s.close()
                # More than it takes.
                crowd = [connect() for _ in range(100)]
                for s in crowd: s.close()
                """
            ).succeed()
            try await eventually("as many sockets as before, \(before)", state: { "\(sockets())" }) {
                sockets() <= before
            }
            #expect(try await bench.report("status")["processID"].int == Int(daemon.processID))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test("A request that cannot be read is answered at once, once, and with a reason")
    func unreadable() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            let output = try await bench.startPython(
                """
                import socket
                for text in [b'GET /v1/status\\r\\n\\r\\n', b'\\0 nonsense\\r\\n\\r\\n',
                             b'GET /v1/status HTTP/1.1\\r\\nX: ' + b'a' * 20000 + b'\\r\\n\\r\\n',
                             b'POST /v1/hooks HTTP/1.1\\r\\nContent-Length: 9223372036854775807\\r\\n\\r\\n',
                             b'POST /v1/hooks HTTP/1.1\\r\\nContent-Length: 1048577\\r\\n\\r\\n']:
                    s = socket.socket(socket.AF_UNIX); s.settimeout(20)
                    s.connect('\(bench.controlSocket)'); s.sendall(text)
                    answer = b''
                    while more := s.recv(65536): answer += more
                    print(answer.count(b'HTTP/1.1'), answer.split(b' ')[1].decode(), answer.count(b'"message"'))
                """
            ).succeed()
            #expect(output == "1 400 1\n1 400 1\n1 400 1\n1 413 1\n1 413 1\n")
            try await daemon.stop()
        }
    }

    @Test("The group may ask, root and the daemon's user may steer; others are told, and the journal too")
    func access() async throws {
        guard geteuid() == 0, FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") else {
            return  // Only root can be somebody else.
        }
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")))
            let daemon = try await bench.startDaemon()
            let attributes = try FileManager.default.attributesOfItem(atPath: bench.controlSocket)
            #expect(attributes[.posixPermissions] as? Int == 0o660)
            // The way there, which a test's folders bar.
            for folder in [bench.folder.path, bench.path("state")] {
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
            }
            let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            let barred = try await bench.ctl("status", under: nobody)
            #expect(barred.status == .exited(77))
            #expect(barred.errors.contains("may not be used by this user"))
            let member = ["/usr/bin/setpriv", "--reuid=65534", "--regid=0", "--clear-groups"]
            let status = try await bench.ctl("status", under: member)
            #expect(status.status == .exited(0), "\(status.errors)")
            // To acknowledge is part of reading.
            let place = "\(try await bench.id()):0"
            let acknowledged = try await bench.ctl(
                "feed", "MainApp", "live", "--through", place, under: member)
            #expect(acknowledged.output == place + "\n", "\(acknowledged.errors)")
            for arguments in [
                ["pause"], ["reload"], ["hooks", "remove", "--all"], ["log-level", "debug"], ["run"],
            ] {
                let refused = try bench.startCtl(arguments, under: member)
                #expect(try await refused.end() == .exited(77))
                #expect(
                    refused.errors.hasPrefix(
                        "historyctl: Only root and the daemon's user (uid 0) may do that; this is uid 65534."),
                    "\(refused.errors)")
            }
            let line = try await daemon.logged("event=controlRefused")
            #expect(line.hasPrefix("warning: Refused POST /v1/pause of process "))
            #expect(line.contains(" of uid 65534: "))
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            try await daemon.stop()
        }
    }

    @Test("Values of rows are only for who may read the store")
    func values() async throws {
        guard geteuid() == 0, FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") else {
            return  // Only root can be somebody else.
        }
        try await withWorkbench { bench in
            let retry = #""retry": {"attempts": 1, "initialDelay": "1ms"}, "onFailure": "skip""#
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding("ids", #""name": "live", "values": true"#)),
                plugins: [PluginSetup(more: retry)])
            let daemon = try await bench.startDaemon()
            for folder in [bench.folder.path, bench.path("state")] {
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
            }
            let start = "\(try await bench.id()):0"
            try bench.misbehave("refuse", "all")
            _ = try await bench.commit("INSERT INTO person (id, name) VALUES (1, 'secret')")
            let token = try await bench.commit("DELETE FROM person")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token)
            let code = """
                import socket, sys
                def ask(request, ends):
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(sys.argv[1])
                    s.sendall(f'GET /v1/{request} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
                    answer = b''
                    while not ends(answer):
                        part = s.recv(65536)
                        if not part: break
                        answer += part
                    return answer.decode()
                follow = ask('follow?after=' + sys.argv[2], lambda a: b'"delete"' in a and a.endswith(b']}\\n\\r\\n'))
                letters = ask('dead-letters', lambda a: False)
                feed = ask('feed?consumer=MainApp&context=live', lambda a: b'\\r\\n' in a)
                ids = ask('feed?consumer=MainApp&context=ids', lambda a: b'\\r\\n' in a)
                print('secret' in follow, '"call":' in letters, '"reason"' in letters, '"operation":"delete"' in follow,
                    feed.split()[1], ids.split()[1])
                """
            func answers(groups: String) async throws -> String {
                let member = [
                    "/usr/bin/setpriv", "--reuid=61001", "--regid=0", "--groups=\(groups)", Products.python,
                ]
                return try await bench.start(
                    member + ["-c", code, bench.controlSocket, start], "member-\(UUID().uuidString)"
                ).succeed()
            }
            for suffix in ["", "-wal", "-shm"] { chmod(bench.path("contacts.sqlite" + suffix), 0o640) }
            #expect(chown(bench.path("contacts.sqlite"), 0, 62001) == 0)
            #expect(try await answers(groups: "65000") == "False False True True 403 200\n")
            #expect(try await answers(groups: "62001,65000") == "True True True True 200 200\n")
            chmod(bench.path("contacts.sqlite"), 0o604)
            #expect(try await answers(groups: "65000") == "True True True True 200 200\n")
            try await daemon.stop()
        }
    }

    @Test("The socket goes with the daemon; one that was left is replaced, and what is no socket is not")
    func file() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let first = try await bench.startDaemon()
            try await first.kill()
            #expect(FileManager.default.fileExists(atPath: bench.controlSocket))
            let left = try await bench.ctl("status")
            #expect(left.status == .exited(69))
            let second = try await bench.startDaemon()
            try await bench.steer("status")
            try await second.stop()
            #expect(!FileManager.default.fileExists(atPath: bench.controlSocket))

            try bench.folder.write("state/control.sock", "mine")
            let third = try bench.launchDaemon(name: "third")
            #expect(try await third.program.end() == .exited(74))
            #expect(third.log.last?.contains("exists and is not a socket") == true, "\(third.log)")
            #expect(third.log.last?.hasSuffix("event=controlUnavailable") == true)
            #expect(try String(contentsOfFile: bench.controlSocket, encoding: .utf8) == "mine")

            let other = try bench.start(
                [
                    Products.historyd, "--config", bench.configuration, "--control-socket",
                    bench.path("elsewhere.sock"),
                ], "other", environment: ["STATE_DIRECTORY": bench.path("state")])
            try await DaemonUnderTest(other, logFrom: 0).ready()
            try await bench.steer("status", "--socket", bench.path("elsewhere.sock"))
        }
    }

    @Test(
        "A socket that the service manager made is taken over",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-socket-activate")))
    func activation() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let socket = bench.path("activated.sock")
            let program = try bench.start(
                [
                    "/usr/bin/systemd-socket-activate", "--listen=\(socket)",
                    "--setenv=STATE_DIRECTORY=\(bench.path("state"))", Products.historyd, "--config",
                    bench.configuration,
                ], "activated")
            try await eventually("the socket") { FileManager.default.fileExists(atPath: socket) }
            // The request itself starts it.
            #expect(
                try await bench.report("status", "--socket", socket)["processID"].int == Int(program.processID))
            program.signal(SIGTERM)
            #expect(try await program.end() == .exited(0), "\(program.errors)")
            #expect(FileManager.default.fileExists(atPath: socket), "it is the service manager's")
        }
    }

    @Test(
        "Who follows and does not read costs the daemon no memory, and nobody time",
        .measuresMemory)
    func slowReader() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            let reader = try await bench.startPython(
                """
                import socket
                s = socket.socket(socket.AF_UNIX); s.connect('\(bench.controlSocket)')
                s.sendall(b'GET /v1/follow HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
                print(s.recv(15), flush=True)
                sys.stdin.read() or time.sleep(1000)
                """)
            try await eventually("the stream's beginning") { !reader.output.wholeLines.isEmpty }
            let text = String(repeating: "x", count: 100)
            /// A megabyte of JSON for those who follow.
            func commit(_ rounds: Range<Int>) async throws {
                for round in rounds {
                    try await bench.write(
                        """
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
                        INSERT INTO item (code) SELECT '\(text)' || (\(round) * 4000 + i) FROM n
                        """, as: "Importer")
                    try await bench.waitUntilServed((round + 1) * 4000)
                }
            }
            // More than fits into the pipe, so that it is stuck from here on.
            try await commit(0..<4)
            let before = Processes.memory(daemon.processID)
            try await commit(4..<16)
            #expect(Processes.memory(daemon.processID) - before < 8_000_000)
            try await daemon.stop()
        }
    }

    @Test("Without a daemon every verb ends with 69 and one line")
    func notRunning() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("m.json", "{}")
            let verbs = [
                ["status"], ["consumers"], ["hooks", "list"], ["hooks", "add", bench.path("m.json")],
                ["hooks", "remove", "--all"], ["reload"], ["pause"], ["resume", "contacts"], ["run"],
                ["wait", "--consumer", "a", "--token", "b:1"], ["follow"], ["clean"], ["resync", "view"],
                ["dead-letters", "list"], ["dead-letters", "retry", "--all"], ["dead-letters", "drop", "a:1"],
                ["log-level"], ["log-level", "debug"],
            ]
            for verb in verbs {
                let program = try bench.startCtl(verb)
                #expect(try await program.end() == .exited(69), "\(verb)")
                #expect(program.output == "")
                #expect(
                    program.errors
                        == "historyctl: historyd is not running: no process listens at \"\(bench.controlSocket)\". Start it, or name the socket of a running one with --socket.\n"
                )
            }
        }
    }

    @Test(
        "Every verb works with curl",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")))
    func curl() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try bench.folder.write("more.json", #"{"version": 1, "plugins": []}"#)
            let requests = [
                ("GET", "status", "processID"), ("GET", "consumers", "consumers"), ("GET", "hooks", "hooks"),
                ("POST", "hooks?persist=true", "added"), ("DELETE", "hooks?all=true&kind=merge", "removed"),
                ("POST", "reload", "stores"), ("POST", "pause", "stores"),
                ("POST", "resume?store=contacts", "stores"),
                ("POST", "run", "consumers"),
                ("GET", "wait?consumer=MainApp&token=\(token)&timeout=60s", "cursor"),
                ("POST", "clean?dryRun=true", "stores"), ("POST", "resync?context=view", "token"),
                ("GET", "dead-letters", "deadLetters"), ("POST", "dead-letters/retry?all=true", "delivered"),
                ("DELETE", "dead-letters?all=true", "dropped"), ("GET", "log-level", "logLevel"),
                ("PUT", "log-level?level=debug", "logLevel"),
            ]
            for (method, target, member) in requests {
                let body = target.hasPrefix("hooks?p") ? ["--data-binary", "@" + bench.path("more.json")] : []
                let output = try await bench.start(
                    [
                        "/usr/bin/curl", "-sS", "--fail-with-body", "--unix-socket", bench.controlSocket, "-X",
                        method,
                    ]
                        + body + ["http://historyd/v1/\(target)"], "curl-\(UUID().uuidString)"
                ).succeed()
                #expect(try Tree(output).names.contains(member), "\(method) \(target): \(output)")
            }
            let follow = try bench.start(
                [
                    "/usr/bin/curl", "-sSN", "--unix-socket", bench.controlSocket,
                    "http://historyd/v1/follow?consumer=MainApp",
                ], "follow")
            // It may connect after a commit: one of these comes after that.
            try await eventually("a transaction") {
                _ = try await bench.commit("INSERT INTO person DEFAULT VALUES")
                return !follow.output.wholeLines.isEmpty
            }
            #expect(try Tree(follow.output.wholeLines[0])["author"].text == "Writer")
            try await daemon.stop()
        }
    }
}
