import Foundation
import TestSupport
import Testing

/// What members of the socket's group can do to the daemon, and to each other.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: geteuid() == 0, "Only root can be somebody else."), .timeLimit(.minutes(60)))
struct ControlLimitTests {
    private func bench(_ body: (Workbench) async throws -> Void) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")))
            try FileManager.default.createDirectory(
                atPath: bench.path("state"), withIntermediateDirectories: true)
            // The way there, which a test's folders bar.
            for folder in [bench.folder.path, bench.path("state")] {
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
            }
            try await body(bench)
        }
    }

    /// Runs Python as another user of the socket's group.
    private func member(_ code: String, uid: Int = 65534, of bench: Workbench) async throws -> String {
        let head = """
            import os, socket, sys
            os.setgroups([]); os.setresgid(0, 0, 0); os.setresuid(\(uid), \(uid), \(uid))
            def connect(text=b''):
                s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect('\(bench.controlSocket)')
                s.sendall(text); return s
            def read(s):
                parts = []
                try:
                    while part := s.recv(65536): parts.append(part)
                except ConnectionResetError: pass
                return b''.join(parts)
            def ask(method, target): return read(connect(f'{method} /v1/{target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode()))
            def status(answer): return answer.split(b' ')[1].decode()

            """
        let name = "member-\(UUID().uuidString)"
        try bench.folder.write(name + ".py", head + code)
        return try await bench.start([Products.python, bench.path(name + ".py")], name).succeed()
    }

    @Test("As many may wait for the daemon as the kernel allows, and not NIO's 128")
    func backlog() async throws {
        try await bench { bench in
            let daemon = try await bench.startDaemon()
            daemon.program.signal(SIGSTOP)
            let waiting = try await member(
                """
                sockets = []
                while len(sockets) < 400:
                    s = socket.socket(socket.AF_UNIX); s.setblocking(False)
                    try: s.connect('\(bench.controlSocket)')
                    except BlockingIOError: break
                    sockets.append(s)
                print(len(sockets))
                """, of: bench)
            let most = try String(contentsOfFile: "/proc/sys/net/core/somaxconn", encoding: .utf8)
            #expect(Int(waiting.dropLast()) ?? 0 >= min(400, Int(most.dropLast()) ?? 0))
            // Who comes behind them has time.
            async let status = bench.ctl("status", "--timeout", "60s")
            daemon.program.signal(SIGCONT)
            #expect(try await status.status == .exited(0))
            try await daemon.stop()
        }
    }

    @Test("Of pipelined requests the first is answered, and no other is carried out")
    func pipelined() async throws {
        try await bench { bench in
            let daemon = try await bench.startDaemon()
            let program = try await bench.startPython(
                """
                import socket
                for following in [b'POST /v1/pause HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'] * 2 + [b'POST /v1/pause HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 100]:
                    s = socket.socket(socket.AF_UNIX); s.connect('\(bench.controlSocket)')
                    s.sendall(b'GET /v1/hooks HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' + following)
                    answer = b''
                    try:
                        while part := s.recv(65536): answer += part
                    except ConnectionResetError: pass
                    print(answer.count(b'HTTP/1.1'), answer.split(b' ')[1].decode())
                """)
            #expect(try await program.succeed().wholeLines == ["1 200", "1 200", "1 200"])
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            #expect(!daemon.log.contains { $0.contains("event=paused") })
            try await daemon.stop()
        }
    }

    @Test("A feed's token is acknowledged by the user whose program was sent it, and not before")
    func acknowledged() async throws {
        try await bench { bench in
            var daemon = try await bench.startDaemon()
            try await bench.insert(1...3)
            try await bench.waitUntilServed(3)
            let id = try await bench.id()
            let feed = "consumer=MainApp&context=live"
            let acknowledge = "print(status(ask('POST', f'feed/acknowledge?\(feed)&token=\(id):{%}')))"
            func code(_ number: Int) -> String { acknowledge.replacing("{%}", with: "\(number)") }
            // Nothing was sent. What is behind the feed already does no harm.
            #expect(try await member(code(2) + "\n" + code(0), of: bench).wholeLines == ["409", "200"])
            let reading = """
                import json
                def lines(s, count):
                    s.sendall(b'GET /v1/feed?\(feed) HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
                    text = b''
                    while text.count(b'"token"') < count: text += s.recv(65536)
                s = connect(); lines(s, 3)

                """
            // Another user's program has it; then one of this user's, which may acknowledge when it is gone, too.
            #expect(try await member(reading + code(1), uid: 65533, of: bench).wholeLines == ["200"])
            #expect(try await member(code(2), of: bench).wholeLines == ["409"])
            let two = reading.replacing("lines(s, 3)", with: "lines(s, 2)")
            #expect(
                try await member(two + code(4) + "\n" + code(2), of: bench).wholeLines == ["409", "200"])
            #expect(try await member(code(3), of: bench).wholeLines == ["200"])
            // Who may steer may skip.
            try await bench.insert(4...4)
            try await bench.waitUntilServed(4)
            try await bench.acknowledge(4)
            // After a restart it comes again first.
            try await bench.insert(5...5)
            try await bench.waitUntilServed(5)
            try await daemon.stop()
            daemon = try await bench.startDaemon()
            #expect(try await member(code(5), of: bench).wholeLines == ["409"])
            let one = reading.replacing("lines(s, 3)", with: "lines(s, 1)")
            #expect(try await member(one + code(5), of: bench).wholeLines == ["200"])
            try await daemon.stop()
        }
    }

    @Test("A user who takes all connections he can get keeps out himself alone, and leaves one line")
    func crowd() async throws {
        try await bench { bench in
            let daemon = try await bench.startDaemon()
            let crowd = try await bench.startPython(
                """
                import select, socket
                os.setgroups([]); os.setresgid(0, 0, 0); os.setresuid(65534, 65534, 65534)
                held = []
                for _ in range(200):
                    s = socket.socket(socket.AF_UNIX); s.connect('\(bench.controlSocket)'); held.append(s)
                refused = 0
                pending = list(held)
                while refused < 183 or select.select(pending, [], [], 0)[0]:
                    s = select.select(pending, [], [])[0][0]
                    pending.remove(s)
                    answer = b''
                    try:
                        while part := s.recv(65536): answer += part
                    except ConnectionResetError: pass
                    refused += b' 503 ' in answer and b'tooManyConnections' in answer
                print(refused, flush=True)
                sys.stdin.read() or time.sleep(1000)
                """)
            try await eventually("the crowd") { !crowd.output.wholeLines.isEmpty }
            #expect(crowd.output.wholeLines == ["183"])
            #expect(Processes.descriptors(daemon.processID) < 100)
            try await bench.steer("status")
            #expect(
                try await member("print(status(ask('GET', 'status')))", uid: 65533, of: bench).wholeLines
                    == ["200"])
            #expect(daemon.log.count { $0.contains("was refused on the control socket") } == 1, "\(daemon.log)")
            crowd.signal(SIGKILL)
            _ = try await crowd.end()
            // What may not be asked, asked again and again.
            #expect(
                try await member("print({status(ask('POST', 'reload')) for _ in range(50)})", of: bench)
                    == "{'403'}\n")
            #expect(daemon.log.count { $0.contains("event=controlRefused") } == 1, "\(daemon.log)")
            try await daemon.stop()
        }
    }

    @Test("Heads and bodies beyond all measure, and bytes without end, are cut off", .measuresMemory)
    func floods() async throws {
        try await bench { bench in
            let daemon = try await bench.startDaemon()
            try await bench.steer("status")
            let before = Processes.memory(daemon.processID)
            let output = try await member(
                """
                def flood(text, piece, most):
                    s = connect(text); sent = 0
                    try:
                        while sent < most:
                            s.sendall(piece); sent += len(piece)
                    except (BrokenPipeError, ConnectionResetError): return status(read(s) or b'- cut')
                    return 'endless'
                head = b'GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\n'
                print(flood(head, b'X: ' + b'a' * 1000 + b'\\r\\n', 1 << 22))
                print(flood(head + b'X: ', b'a' * 4096, 1 << 22))
                print(flood(b'GET /', b'a' * 4096, 1 << 22))
                print(flood(b'POST /v1/hooks HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 999999999\\r\\n\\r\\n', b'a' * 4096, 1 << 22))
                print(flood(b'POST /v1/hooks HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n', b'1\\r\\na\\r\\n' * 1000, 1 << 22))
                print(flood(b'GET /v1/follow HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', head + b'\\r\\n', 1 << 22))
                """, of: bench)
            #expect(!output.contains("endless"), "\(output)")
            #expect(Processes.memory(daemon.processID) - before < 8_000_000)
            try await daemon.stop()
        }
    }
}
