import FoundationEssentials
import Glibc
import Logging
import PersistentHistory
import ServiceLifecycle
import Testing

@testable import HistoryConfiguration
@testable import HistoryPlugins

/// A merge hook's answer that tells the number of its process.
private let answerPID = """
    def pid(request):
        answer(request, {"verdict": "goOn", "reject": ["00000000-0000-0000-0000-000000000001:%d" % os.getpid()]})

    """

extension CoprocessPlugin {
    fileprivate func processID() async throws -> pid_t {
        let result = try await merge(Calls.merge)
        return pid_t(try #require(result.rejected.first).number)
    }
}

/// Waits until the condition holds; the suite's time limit ends a wait for ever.
func until(_ condition: () -> Bool) async throws {
    while !condition() { try await Task.sleep(for: .milliseconds(5)) }
}

func isGone(_ process: pid_t) -> Bool {
    guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else {
        return true
    }
    // An orphan stays a zombie until init takes note of it.
    return status.contains(") Z ")
}

@Suite(.timeLimit(.minutes(60))) struct CoprocessPluginTests {
    // MARK: What goes well

    @Test func requestsAreWhatIsPromised() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            log = open(sys.argv[0] + ".log", "w")
            for line in sys.stdin:
                log.write(line)
                log.flush()
                request = json.loads(line)
                answer(request, "finish" if request["method"] == "merge" else None)
            """)
        try await withCoprocess(command) { plugin in
            let outcome = await plugin.observe([Calls.observe(3)])
            #expect(outcome.succeeded == 1 && outcome.failure == nil)
            let result = try await plugin.merge(Calls.merge)
            #expect(result == MergeResult(.finish))
        }
        #expect(
            try scripts.contents(of: "plugin.py.log")
                == #"{"jsonrpc":"2.0","id":1,"method":"observe","params":\#(CallJSONTests.observe)}"# + "\n"
                + #"{"jsonrpc":"2.0","id":2,"method":"merge","params":\#(CallJSONTests.merge)}"# + "\n")
    }

    @Test func manyCallsInOrderAndLargeOnes() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            tokens = []
            for r in requests():
                if r["method"] == "merge":
                    answer(r, {"verdict": "goOn", "reject": tokens})
                else:
                    tokens.append("%s:%d" % (r["params"]["transaction"]["token"].split(":")[0], len(r["params"]["contexts"])))
                    assert r["params"]["transaction"]["token"] == "00000000-0000-0000-0000-000000000001:%d" % len(tokens)
                    answer(r)
            """)
        try await withCoprocess(command, window: .init(calls: 8, bytes: 10_000)) { plugin in
            let calls = (1...300).map { Calls.observe($0, rows: 1...($0 == 100 ? 10_000 : 1)) }
            let outcome = await plugin.observe(calls)
            #expect(outcome.succeeded == 300)
            #expect(outcome.failure == nil)
            let result = try await plugin.merge(Calls.merge)
            #expect(result.rejected.map(\.number).sorted() == [1, 10_000])
        }
    }

    @Test func consumersTakeTurns() async throws {
        let scripts = try Scripts()
        let command = try scripts.python("for r in requests(): answer(r)")
        try await withCoprocess(command) { plugin in
            await withTaskGroup(of: ObserverOutcome.self) { group in
                for _ in 0..<10 { group.addTask { await plugin.observe(Calls.observes(200)) } }
                for await outcome in group { #expect(outcome.succeeded == 200 && outcome.failure == nil) }
            }
        }
    }

    @Test func aLongBacklogKeepsNobodyElseWaitingToItsEnd() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            count = 0
            for r in requests():
                if r["method"] == "merge": answer(r, {"verdict": "goOn", "reject": ["00000000-0000-0000-0000-000000000001:%d" % count]}); continue
                count += 1
                if count == 1:
                    sys.stderr.write("waiting\\n")
                    while not os.path.exists(sys.argv[0] + ".go"): time.sleep(0.005)
                answer(r)
            """)
        let journal = Journal()
        let gate = scripts.path("plugin.py.go")
        try await withCoprocess(command, journal: journal) { plugin in
            async let backlog = plugin.observe(Calls.observes(2000))
            for await entry in journal.stream where entry.text == "waiting" { break }
            async let other = plugin.merge(Calls.merge)
            while await !plugin.isAwaited { await Task.yield() }
            #expect(FileManager.default.createFile(atPath: gate, contents: nil))
            let before = try #require(try await other.rejected.first?.number)
            #expect(before <= 64)
            let outcome = await backlog
            #expect(outcome.succeeded == 2000 && outcome.failure == nil)
        }
    }

    @Test func standardErrorGoesToTheLog() async throws {
        let scripts = try Scripts()
        let journal = Journal()
        let command = try scripts.python(
            """
            sys.stderr.buffer.write(b"one\\nt\\xffo\\n" + b"x" * 10000 + b"\\n")
            for r in requests(): answer(r)
            sys.stderr.write("last")
            """)
        try await withCoprocess(command, journal: journal) { plugin in
            _ = await plugin.observe([Calls.observe(1)])
        }
        let entries = await journal.close().filter { $0.level == .info }
        #expect(
            entries.map(\.text) == ["one", "t\u{FFFD}o", String(repeating: "x", count: 4096) + "…", "last"])
        #expect(entries.allSatisfy { $0.metadata["plugin"] == "test" })
    }

    @Test func aFloodOfErrorsHarmsNothing() async throws {
        let scripts = try Scripts()
        let journal = Journal()
        let command = try scripts.python(
            """
            for r in requests():
                for i in range(200): sys.stderr.write("x" * 70 + "\\n")
                answer(r)
            """)
        try await withCoprocess(command, journal: journal) { plugin in
            let outcome = await plugin.observe(Calls.observes(100))
            #expect(outcome.succeeded == 100)
        }
        let entries = await journal.close()
        let told = entries.count { $0.level == .info }
        let dropped = entries.compactMap { $0.metadata["count"].flatMap { Int("\($0)") } }.reduce(0, +)
        #expect(dropped > 0)
        #expect(told + dropped == 20_000)
    }

    @Test func theServiceManagersVariablesAreNotPassedOn() {
        let plugin = PluginConfiguration(name: "test", command: [], environment: ["A": "2", "B": "2"])
        let environment = ChildProcess.environment(
            of: plugin, adding: ["B": "3"],
            inherited: [
                "A": "1", "PATH": "/bin", "NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1",
                "LISTEN_FDNAMES": "control", "LISTEN_PID": "1", "JOURNAL_STREAM": "8:1", "INVOCATION_ID": "0a",
                "CREDENTIALS_DIRECTORY": "/run/c", "STATE_DIRECTORY": "/var/s", "RUNTIME_DIRECTORY": "/run/r",
            ])
        #expect(environment.sorted() == ["A=2", "B=3", "PATH=/bin"])
    }

    @Test func theProcessStartsClean() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for r in requests():
                sys.stderr.write(os.environ["LEVEL"] + " " + str(os.getpgid(0) == os.getpid()) + " " + str(sorted(os.listdir("/proc/self/fd"))[:3]) + " "
                    + str(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL) + "\\n")
                answer(r)
            """)
        let journal = Journal()
        try await withCoprocess(command, environment: ["LEVEL": "2"], journal: journal) { plugin in
            #expect(await plugin.observe([Calls.observe(1)]).succeeded == 1)
        }
        let lines = await journal.close().filter { $0.level == .info }.map(\.text)
        #expect(lines == ["2 True ['0', '1', '2'] True"])
    }

    // MARK: What goes wrong, and leaves the process

    @Test func anErrorIsARefusalAndTheProcessStays() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            answerPID + """
                for r in requests():
                    if r["method"] == "merge": pid(r)
                    elif r["params"]["transaction"]["token"] == "00000000-0000-0000-0000-000000000001:5":
                        print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "error": {"code": 1, "message": "no five"}}), flush=True)
                    else: answer(r)
                """)
        try await withCoprocess(command) { plugin in
            let before = try await plugin.processID()
            let outcome = await plugin.observe(Calls.observes(200))
            #expect(outcome.succeeded == 4)
            #expect(
                outcome.failure == HookFailure(.refused, "Plugin \"test\" answered with an error: no five."))
            // Those behind it have been answered too, and nobody takes their answers for his own.
            let next = await plugin.observe(Calls.observes(4))
            #expect(next.succeeded == 4 && next.failure == nil)
            #expect(try await plugin.processID() == before)
        }
    }

    /// In calls of each kind.
    @Test func anErrorMayAdvise() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for r in requests():
                data = {"retryAfter": "20s"} if r["method"] == "observe" else {"permanent": True}
                error = {"code": 1, "message": "no", "data": data}
                print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "error": error}), flush=True)
            """)
        try await withCoprocess(command) { plugin in
            #expect(await plugin.observe(Calls.observes(3)).failure?.advice == .retryAfter(.seconds(20)))
            await #expect { try await plugin.merge(Calls.merge) } throws: {
                ($0 as? HookFailure)?.advice == .permanent
            }
        }
    }

    /// Refuses the second call, once or for good.
    private static let refusing = """
        times = int(sys.argv[1])
        for r in requests():
            token = r["params"]["transaction"]["token"]
            open(sys.argv[0] + ".log", "a").write(token.split(":")[1] + " ")
            if token == "00000000-0000-0000-0000-000000000001:2" and times > 0:
                times -= 1
                print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "error": {"message": "no"}}), flush=True)
            else: answer(r)
        """

    @Test func aWindowOfOneShowsNothingBeforeItsTime() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(Self.refusing) + ["2"]
        try await withCoprocess(command, window: .init(calls: 1)) { plugin in
            var calls = Calls.observes(4)
            while !calls.isEmpty { calls.removeFirst(await plugin.observe(calls).succeeded) }
        }
        #expect(try scripts.contents(of: "plugin.py.log") == "1 2 2 2 3 4 ")
    }

    @Test func afterAFailureASingleCallIsTried() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(Self.refusing) + ["3"]
        try await withCoprocess(command) { plugin in
            #expect(await plugin.observe(Calls.observes(5)).succeeded == 1)
            let rest = Array(Calls.observes(5).dropFirst())
            #expect(await plugin.observe(rest).succeeded == 0)
            #expect(await plugin.observe(rest).succeeded == 0)
            #expect(await plugin.observe(rest).succeeded == 4)
        }
        #expect(try scripts.contents(of: "plugin.py.log") == "1 2 3 4 5 2 2 2 3 4 5 ")
    }

    @Test func aMergeResultThatIsNone() async throws {
        let scripts = try Scripts()
        let command = try scripts.python("for r in requests(): answer(r, 'perhaps')")
        try await withCoprocess(command) { plugin in
            await #expect { try await plugin.merge(Calls.merge) } throws: {
                ($0 as? HookFailure)?.reason == .badAnswer
            }
            await #expect { try await plugin.merge(Calls.merge) } throws: {
                ($0 as? HookFailure)?.reason == .badAnswer
            }
        }
    }

    @Test func cancellationReturnsAtOnceAndStaysInStep() async throws {
        let scripts = try Scripts()
        // It answers the first, then waits for a file.
        let command = try scripts.python(
            answerPID + """
                for r in requests():
                    if r["method"] == "merge": pid(r); continue
                    if r["params"]["transaction"]["token"] == "00000000-0000-0000-0000-000000000001:2":
                        sys.stderr.write("waiting\\n")
                        while not os.path.exists(sys.argv[0] + ".go"): time.sleep(0.005)
                    answer(r)
                """)
        let journal = Journal()
        let gate = scripts.path("plugin.py.go")
        try await withCoprocess(command, journal: journal) { plugin in
            let before = try await plugin.processID()
            let task = Task { await plugin.observe(Calls.observes(50)) }
            for await entry in journal.stream where entry.text == "waiting" { break }
            task.cancel()
            let outcome = await task.value
            #expect(outcome.succeeded == 1 && outcome.failure == nil)
            // One that waits for its turn behind another is cancelled as well.
            let first = Task { try await plugin.processID() }
            let second = Task { try await plugin.merge(Calls.merge) }
            second.cancel()
            await #expect { try await second.value } throws: { ($0 as? HookFailure)?.reason == .cancelled }
            #expect(FileManager.default.createFile(atPath: gate, contents: nil))
            #expect(try await first.value == before)
        }
    }

    // MARK: What goes wrong, and ends the process

    /// Each misbehaves at the observe call, and then works, because there is a file.
    @Test(
        arguments: [
            ("os._exit(3)", .died, "ended with status 3"),
            ("os.kill(os.getpid(), signal.SIGSEGV)", .died, "was killed by signal 11"),
            ("os.close(1); time.sleep(1000)", .died, "closed its standard output, and was killed by signal 15"),
            ("os.close(1); os.close(0); os.close(2); os._exit(4)", .died, "ended with status 4"),
            ("time.sleep(1000)", .timedOut, "did not answer within 15.0 seconds"),
            ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)", .timedOut, "did not answer"),
            ("print('hello', flush=True); time.sleep(1000)", .badAnswer, "is not a JSON-RPC response: hello"),
            (
                #"print('{"id":77,"result":null}', flush=True)"#, .badAnswer,
                "answered with the id 77 where 1 was due"
            ),
            ("answer(r); answer(r); time.sleep(1000)", .badAnswer, "answered with the id 1 where 2 was due"),
            (
                "while True: sys.stdout.write('\\n' * 4096)", .badAnswer,
                "wrote only blank lines"
            ),
            (
                #"print('{"id":null,"error":{"message":"' + 'y' * 9999 + '"}}', flush=True); time.sleep(1000)"#,
                .badAnswer, "without an id where 1 was due (\"" + String(repeating: "y", count: 200) + "…"
            ),
            ("while True: print('x' * 1000)", .badAnswer, "not a JSON-RPC response: xxx"),
            (
                "while True: sys.stdout.write('x' * 65536)", .badAnswer,
                "wrote a line of more than 1048576 bytes"
            ),
            (
                "sys.stdout.buffer.write(b'\\xff\\0\\n'); sys.stdout.flush(); time.sleep(1000)", .badAnswer,
                "not a JSON-RPC response"
            ),
            ("os.fork() or time.sleep(1000); os._exit(5)", .died, "ended with status 5"),
            (
                "os.fork() or (os.setsid(), os.close(2), time.sleep(5)); os._exit(6)", .died,
                "ended with status 6"
            ),
        ] as [(String, HookFailure.Reason, String)])
    func misbehaviour(_ deed: String, _ reason: HookFailure.Reason, _ message: String) async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for r in requests():
                if not os.path.exists(sys.argv[0] + ".done"):
                    open(sys.argv[0] + ".done", "w").close()
                    \(deed)
                answer(r)
            """)
        let timeout: Duration = reason == .timedOut ? .seconds(15) : .seconds(60)
        try await withCoprocess(command, timeout: timeout, grace: .milliseconds(100)) { plugin in
            let outcome = await plugin.observe(Calls.observes(3))
            #expect(outcome.failure?.reason == reason)
            #expect(outcome.failure?.message.contains(message) == true, "\(outcome.failure?.message ?? "none")")
            #expect(outcome.succeeded == (deed.hasPrefix("answer") ? 1 : 0))
            let again = await plugin.observe(Calls.observes(3))
            #expect(again.succeeded == 3)
            #expect(again.failure == nil, "\(again.failure?.message ?? "")")
        }
    }

    @Test func theWholeGroupIsKilled() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("sleep 1000 & echo $! >&2; read line; sleep 1000")
        let journal = Journal()
        try await withCoprocess(command, timeout: .milliseconds(300), journal: journal) { plugin in
            var background: pid_t?
            for await entry in journal.stream where entry.level == .info {
                background = pid_t(entry.text)
                break
            }
            let process = try #require(background)
            #expect(!isGone(process))
            let outcome = await plugin.observe([Calls.observe(1)])
            #expect(outcome.failure?.reason == .timedOut)
            try await until { isGone(process) }
        }
    }

    @Test func whatIsNeverRead() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("exec sleep 1000")
        try await withCoprocess(command, timeout: .milliseconds(300), grace: .milliseconds(10)) { plugin in
            let outcome = await plugin.observe([Calls.observe(1, rows: 1...10_000), Calls.observe(2)])
            #expect(outcome.succeeded == 0)
            #expect(outcome.failure?.reason == .timedOut)
        }
    }

    @Test func aStandardInputThatIsClosedEarly() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("exec 0<&-; echo closed >&2; exec sleep 1000")
        let journal = Journal()
        try await withCoprocess(command, grace: .milliseconds(50), journal: journal) { plugin in
            for await entry in journal.stream where entry.text == "closed" { break }
            let outcome = await plugin.observe([Calls.observe(1)])
            #expect(outcome.failure?.reason == .died)
            #expect(outcome.failure?.message.contains("closed its standard input") == true)
        }
    }

    @Test func aLineThatNobodyAskedFor() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("echo welcome; exec sleep 1000")
        let journal = Journal()
        try await withCoprocess(command, grace: .milliseconds(50), journal: journal) { plugin in
            for await entry in journal.stream where entry.level == .warning {
                #expect("\(entry.metadata["error"] ?? "")".contains("not a JSON-RPC response: welcome"))
                break
            }
        }
    }

    @Test func whatCannotBeStarted() async throws {
        let scripts = try Scripts()
        let plain = try scripts.write("#!/bin/sh\n", as: "plain")
        let text = try scripts.write("no program", as: "text", executable: true)
        for command in [
            [], ["/does/not/exist"], ["no-such-program-in-path"], [plain], [text], [scripts.folder],
        ] {
            try await withCoprocess(command) { plugin in
                await #expect { try await plugin.waitUntilStarted() } throws: {
                    ($0 as? HookFailure)?.reason == .cannotStart
                }
                let outcome = await plugin.observe([Calls.observe(1)])
                #expect(outcome.failure?.reason == .cannotStart)
            }
        }
    }

    @Test func itIsStartedOnceItIsThere() async throws {
        let scripts = try Scripts()
        let journal = Journal()
        try await withCoprocess([scripts.path("late")], journal: journal) { plugin in
            await #expect { try await plugin.waitUntilStarted() } throws: {
                "\($0)".contains("No such file or directory")
            }
            var attempts = 0
            for await entry in journal.stream where entry.text == "unstartable" {
                attempts += 1
                if attempts == 4 { break }
            }
            _ = try scripts.write(
                "#!/bin/sh\necho here >&2; read line; echo '{\"id\":1,\"result\":null}'; read line", as: "new",
                executable: true)
            rename(scripts.path("new"), scripts.path("late"))
            var outcome: ObserverOutcome
            repeat {
                outcome = await plugin.observe([Calls.observe(1)])
            } while outcome.failure?.reason == .cannotStart
            #expect(outcome.succeeded == 1)
        }
        // Its first words are no repetition.
        #expect(await journal.close().contains { $0.level == .info && $0.text == "here" })
    }

    // MARK: The end

    @Test(
        arguments: [
            ("for r in requests(): answer(r)\nsys.stderr.write('end of input')", "end of input"),
            (
                "def end(*_): sys.stderr.write('terminated'); sys.stderr.flush(); os._exit(0)\nsignal.signal(signal.SIGTERM, end)\nsys.stderr.write('ready\\n')\nwhile True: time.sleep(1000)",
                "terminated"
            ),
            (
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsys.stderr.write('ready\\n')\nwhile True: time.sleep(1000)",
                nil
            ),
        ] as [(String, String?)])
    func stopTakesThreeSteps(_ script: String, _ last: String?) async throws {
        let scripts = try Scripts()
        let journal = Journal()
        let command = try scripts.python(script)
        try await withCoprocess(
            command, grace: .milliseconds(last == "end of input" ? 20_000 : 200), journal: journal
        ) { plugin in
            try await plugin.waitUntilStarted()
            if last != "end of input" {
                for await entry in journal.stream where entry.text == "ready" { break }
            }
        }
        let entries = await journal.close()
        #expect(entries.last { $0.level == .info }?.text == last)
        #expect(!entries.contains { $0.level >= .warning }, "a stop is nothing to warn of")
    }

    @Test func aGracefulShutdownClosesStandardInput() async throws {
        let scripts = try Scripts()
        let journal = Journal()
        let command = try scripts.sh("while read line; do :; done; echo end of input >&2")
        let plugin = CoprocessPlugin(
            PluginConfiguration(name: "test", command: command, mode: .coprocess), logger: journal.logger,
            grace: .seconds(60), window: .init())
        let group = ServiceGroup(services: [plugin], logger: Journal().logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            try await plugin.waitUntilStarted()
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
        #expect(await journal.close().map(\.text) == ["end of input"])
    }

    @Test func callsAfterTheEndAreCancelled() async throws {
        let scripts = try Scripts()
        let plugin = try await withCoprocess(try scripts.sh("while read line; do :; done")) { plugin in
            try await plugin.waitUntilStarted()
            return plugin
        }
        #expect(await plugin.observe([Calls.observe(1)]).failure?.reason == .cancelled)
        await #expect { try await plugin.merge(Calls.merge) } throws: {
            ($0 as? HookFailure)?.reason == .cancelled
        }
        await #expect { try await plugin.waitUntilStarted() } throws: {
            ($0 as? HookFailure)?.reason == .cancelled
        }
    }

    @Test func aCallThatIsUnderWayAtTheStop() async throws {
        let scripts = try Scripts()
        let command = try scripts.python("for r in requests(): sys.stderr.write('got it\\n'); time.sleep(1000)")
        let journal = Journal()
        let outcome = try await withCoprocess(command, grace: .milliseconds(50), journal: journal) { plugin in
            let task = Task { await plugin.observe([Calls.observe(1)]) }
            for await entry in journal.stream where entry.text == "got it" { break }
            plugin.stop()
            return await task.value
        }
        #expect(outcome.failure?.reason == .cancelled)
    }

    @Test func cancellationOfRunKillsAtOnce() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("trap '' TERM; echo $$ >&2; while :; do sleep 1000; done")
        let journal = Journal()
        let plugin = CoprocessPlugin(
            PluginConfiguration(name: "test", command: command, mode: .coprocess), logger: journal.logger)
        let task = Task { await plugin.run() }
        var process: pid_t?
        for await entry in journal.stream where entry.level == .info {
            process = pid_t(entry.text)
            break
        }
        task.cancel()
        await task.value
        #expect(isGone(try #require(process)))
    }
}
