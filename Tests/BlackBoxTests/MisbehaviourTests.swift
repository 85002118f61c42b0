import Foundation
import TestSupport
import Testing

/// A plugin that goes wrong: each call that fails by it is one failed attempt with one line in the
/// log, and nobody else is harmed.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MisbehaviourTests {
    struct Deed: Sendable, CustomTestStringConvertible {
        let name: String
        /// What the plugin does when it is called, in Python.
        var call = ""
        /// What it does when it is started.
        var start = ""
        var command: [String]?
        /// What the log says of the attempt, by mode.
        var coprocess: String?
        var oneshot: String?
        /// Whether so much is written to standard error that the log tells of it.
        var floodsTheLog = false
        /// Whether its process ends by itself, which is an event of its own.
        var diesByItself: Bool { coprocess.map { $0.contains("ended") || $0.contains("killed by") } ?? false }

        var testDescription: String { name }
        func expected(_ mode: String) -> String? { mode == "coprocess" ? coprocess : oneshot }
    }

    private static let deeds = [
        Deed(
            name: "hangs", call: "time.sleep(1000)", coprocess: "did not answer within",
            oneshot: "did not end within"),
        Deed(
            name: "hangs, deaf to SIGTERM, with children", call: "os.fork(); time.sleep(1000)",
            start: "signal.signal(signal.SIGTERM, signal.SIG_IGN)", coprocess: "did not answer within",
            oneshot: "did not end within"),
        Deed(
            name: "dies", call: "os._exit(3)", coprocess: "ended with status 3", oneshot: "ended with status 3"),
        Deed(
            name: "dies before it was called", start: "os._exit(4)", coprocess: "ended with status 4",
            oneshot: "ended with status 4"),
        Deed(
            name: "is killed", call: "os.kill(os.getpid(), signal.SIGSEGV)",
            coprocess: "was killed by signal 11",
            oneshot: "was killed by signal 11"),
        Deed(
            name: "answers nonsense",
            call: "print('\\x1b[31mhello\\tworld\\x1b[0m', flush=True); time.sleep(1000)",
            coprocess: #"is not a JSON-RPC response: \u{1b}[31mhello\u{9}world\u{1b}[0m"#),
        Deed(
            name: "answers a wrong id",
            call: #"print('{"id": 77, "result": null}', flush=True); time.sleep(1000)"#,
            coprocess: "answered with the id 77 where"),
        Deed(
            name: "floods standard output", call: "while True: print('x' * 100)",
            coprocess: "is not a JSON-RPC response: xxx", oneshot: "did not end within"),
        Deed(
            name: "floods standard output with one line", call: "while True: sys.stdout.write('x' * 65536)",
            coprocess: "wrote a line of more than 1048576 bytes", oneshot: "did not end within"),
        Deed(
            name: "floods standard output with nothing", call: "while True: sys.stdout.write('\\n' * 65536)",
            coprocess: "wrote only blank lines", oneshot: "did not end within"),
        Deed(
            name: "floods standard error", call: "while True: sys.stderr.write('oh no\\n' * 10000)",
            coprocess: "did not answer within", oneshot: "did not end within", floodsTheLog: true),
        Deed(
            name: "never reads", start: "time.sleep(1000)", coprocess: "did not answer within",
            oneshot: "did not end within"),
        Deed(
            name: "closes its input early", start: "os.close(0); time.sleep(1000)",
            coprocess: "closed its standard input, and was killed by signal 15", oneshot: "did not end within"),
        Deed(
            name: "leaves children that keep the pipes open",
            call: "os.fork() or time.sleep(1000); os._exit(5)",
            coprocess: "ended with status 5", oneshot: "ended with status 5"),
        Deed(
            name: "leaves children of their own session",
            call: "os.fork() or (os.setsid(), time.sleep(2)); os._exit(6)", coprocess: "ended with status 6",
            oneshot: "ended with status 6"),
        Deed(
            name: "is not there", command: ["/does/not/exist"], coprocess: "could not be started",
            oneshot: "could not be started"),
        Deed(
            name: "is not executable", command: ["/etc/passwd"],
            coprocess: "\"/etc/passwd\" is not executable; use \"chmod +x\"",
            oneshot: "\"/etc/passwd\" is not executable; use \"chmod +x\""),
    ]

    /// Misbehaves until there is a file `well`.
    private static func script(_ deed: Deed) -> String {
        """
        import json, os, signal, sys, time
        well = os.path.exists(os.environ['BENCH'] + '/well')
        if not well:
            \(deed.start.isEmpty ? "pass" : deed.start)
        for line in sys.stdin:
            if not well:
                \(deed.call.isEmpty ? "pass" : deed.call)
            request = json.loads(line)
            if sys.argv[1] == 'oneshot': break
            print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': None}), flush=True)
        """
    }

    @Test(
        "Each attempt fails with one line, nobody else is harmed, and it is called again",
        arguments: deeds, ["coprocess", "oneshot"])
    func misbehaves(_ deed: Deed, _ mode: String) async throws {
        // Where the mode knows no such thing: what an observer prints is of no interest.
        guard let expected = deed.expected(mode) else { return }
        // The time is long where it is not the point, and no longer than it must be where it is: a flood takes a processor.
        let isFlood = deed.name.hasPrefix("floods")
        let timeout = expected.contains("within") ? isFlood ? "400ms" : "1500ms" : "60s"
        try await withWorkbench { bench in
            try await configure(bench, deed, mode, timeout: timeout)
            let daemon = try await bench.startDaemon()
            // More than a pipe holds.
            try await bench.write(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO person (id) SELECT i FROM n",
                as: "Widget")
            try await daemon.logged(#"Hook "bad/hook" failed for "MainApp", attempt 1: "#)
            try await othersAreServed(bench, daemon)
            try await daemon.logged("event=deadLetterKept")
            try await eventually("what comes after it") {
                try bench.calls().contains { $0.params.hook == "good/after" }
            }
            check(daemon.problems(bench), deed, expected, isMissing: deed.command != nil && mode == "coprocess")
            #expect(Processes.mostMemory(daemon.processID) < 200 << 20)
            if deed.command == nil { try await isStartedAnew(bench, daemon) }
            try await daemon.stop()
            let letters = try await deadLetters(bench)
            #expect(letters == "bad/hook|2|1|1\n")
        }
    }

    private func configure(_ bench: Workbench, _ deed: Deed, _ mode: String, timeout: String) async throws {
        try bench.folder.write("bad.py", Self.script(deed))
        try await bench.sql("PRAGMA journal_mode = WAL;" + Workbench.schema, of: bench.path("other.sqlite"))
        let bad = PluginSetup(
            name: "bad", command: deed.command ?? [Products.python, "-u", bench.path("bad.py"), mode],
            mode: mode,
            more:
                #""timeout": "\#(timeout)", "onFailure": "skip", "retry": {"attempts": 2, "initialDelay": "10ms"}"#,
            hooks: [#"{"name": "hook", "kind": "observer", "store": "contacts", "consumer": "MainApp"}"#])
        let good = PluginSetup(
            name: "good", more: #""timeout": "120s""#,
            hooks: [
                #"{"name": "other", "kind": "observer", "consumer": "Other"}"#,
                #"{"name": "store", "kind": "observer", "store": "other"}"#,
                #"{"name": "after", "kind": "observer", "store": "contacts", "consumer": "MainApp"}"#,
            ])
        try bench.configure(
            StoreSetup(authors: StoreSetup.named("MainApp", "Other")),
            StoreSetup(name: "other", path: "other.sqlite"), plugins: [bad, good])
    }

    /// While it is in trouble.
    private func othersAreServed(_ bench: Workbench, _ daemon: DaemonUnderTest) async throws {
        for id in 1...5 {
            try await bench.write(
                "INSERT INTO person (id) VALUES (\(id))", as: "Widget", to: bench.path("other.sqlite"))
        }
        try await eventually("what the others get", state: { daemon.log.joined(separator: "\n") }) {
            let hooks = try bench.calls().map(\.params.hook)
            return hooks.contains("good/other") && hooks.count { $0 == "good/store" } == 5
        }
    }

    /// The log has a line for each attempt, and no other.
    private func check(_ problems: [String], _ deed: Deed, _ expected: String, isMissing: Bool) {
        let attempts = problems.filter { $0.contains(#"Hook "bad/hook" failed"#) }
        #expect(attempts.count == 2, "\(attempts)")
        #expect(
            attempts.first?.contains("attempt 1: ") == true && attempts.last?.contains("attempt 2: ") == true)
        #expect(attempts.allSatisfy { $0.contains(expected) }, "\(attempts)")
        let rest = problems.filter {
            !attempts.contains($0) && !(deed.floodsTheLog && $0.contains("writes too much"))
                && !(deed.diesByItself && $0.contains("event=pluginDied"))
                && !((deed.diesByItself || isMissing) && $0.contains("event=pluginFailing"))
        }
        // That it cannot be started is told at the start of the daemon, too.
        #expect(rest.count == (isMissing ? 1 : 0), "\(rest)")
    }

    private func isStartedAnew(_ bench: Workbench, _ daemon: DaemonUnderTest) async throws {
        try bench.folder.write("well", "")
        // Where its time is short, a machine under load may let it fail again.
        for id in 1...10 {
            let failures = daemon.log.count { $0.contains("event=deadLetterKept") }
            try await bench.write("INSERT INTO item VALUES ('\(id)', 1)", as: "Widget")
            let isDelivered = try await eventually("what becomes of it", within: .seconds(120)) { () -> Bool? in
                if daemon.log.contains(where: { $0.contains(#"to "bad/hook" for "MainApp" in 1 call"#) }) {
                    return true
                }
                return daemon.log.count { $0.contains("event=deadLetterKept") } > failures ? false : nil
            }
            if isDelivered { return }
        }
        Issue.record("It was not called again: \(daemon.log.suffix(20))")
    }

    /// The call is there as a whole.
    private func deadLetters(_ bench: Workbench) async throws -> String {
        var letters = ""
        for state in try bench.stateDatabases() {
            letters += try await bench.sql(
                #"SELECT hook, attempts, call LIKE '{"store":"contacts",%', length(call) > 200000 FROM dead_letter WHERE call LIKE '%"person"%'"#,
                of: state)
        }
        return letters
    }

    @Test("A group of more than 10,000 objects comes in parts, and only the part that failed comes again")
    func parts() async throws {
        try await withWorkbench { bench in
            try bench.folder.write(
                "parts.py",
                """
                import json, os, sys
                failed = False
                log = open(os.environ['BENCH'] + '/parts', 'w')
                for line in sys.stdin:
                    r = json.loads(line)
                    part, contexts = r['params']['part'], r['params']['contexts']
                    how = 'ok'
                    if part['index'] == 1 and not failed: failed = True; how = 'failed'
                    delivery = r['params']['delivery'].split('/', 1)[1]
                    print(how, delivery, part['index'], part['last'], contexts[0]['objectID']['id'], len(contexts), file=log, flush=True)
                    answer = {'result': None} if how == 'ok' else {'error': {'code': 1, 'message': 'later'}}
                    print(json.dumps({'jsonrpc': '2.0', 'id': r['id'], **answer}), flush=True)
                """)
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        name: "p", command: [Products.python, bench.path("parts.py")],
                        more: #""timeout": "60s", "retry": {"initialDelay": "10ms"}"#)
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) INSERT INTO person (id) SELECT i FROM n",
                as: "Widget")
            try await daemon.logged("event=hookRecovered")
            try await eventually("the last part") {
                RunningProgram.text(bench.path("parts")).contains("ok MainApp/p/all/0.2 2 True 20001 5000")
            }
            try await daemon.stop()
            let parts = RunningProgram.text(bench.path("parts")).wholeLines
            #expect(
                parts.prefix(2) == [
                    "ok MainApp/p/all/0.0 0 False 1 10000", "failed MainApp/p/all/0.1 1 False 10001 10000",
                ])
            // What was under way behind the failed part comes again, what succeeded before does not.
            #expect(
                parts.suffix(2) == [
                    "ok MainApp/p/all/0.1 1 False 10001 10000", "ok MainApp/p/all/0.2 2 True 20001 5000",
                ])
            #expect(parts.count { $0.contains("all/0.0") } == 1)
        }
    }
}
