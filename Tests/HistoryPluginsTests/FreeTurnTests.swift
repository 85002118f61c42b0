import Glibc
import Testing

@testable import HistoryConfiguration
@testable import HistoryPlugins
@testable import PersistentHistory

/// Calls that are sent by the thread that has them.
@Suite(.timeLimit(.minutes(60))) struct FreeTurnTests {
    private final class Pipe {
        let input: Descriptor
        let reading: Int32

        init() throws {
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            reading = ends[0]
            // What is empty is no reason to wait.
            try #require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
            input = try Descriptor(adopting: ends[1], for: .writing)
        }

        deinit {
            input.close()
            close(reading)
        }

        /// What is in it now.
        func contents() -> String {
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            let count = read(reading, &buffer, buffer.count)
            return String(decoding: buffer[..<max(0, count)], as: UTF8.self)
        }

        func fill() {
            while (try? [UInt8](repeating: 0, count: 4096).withUnsafeBufferPointer(input.writeNow)) ?? 0 > 0 {}
        }
    }

    private let plugin = CoprocessPlugin(
        PluginConfiguration(name: "test", command: ["/bin/false"], mode: .coprocess), logger: Journal().logger)
    private let turn = FreeTurn()

    private func send(_ calls: [ObserverCall], to turn: FreeTurn) -> (FreeTurn.Offer?, PluginConversation) {
        let conversation = PluginConversation(.observe(calls), to: plugin) { _ in }
        return (turn.send(.observe(calls), of: conversation), conversation)
    }

    private static let line =
        #"{"jsonrpc":"2.0","id":7,"method":"observe","params":\#(CallJSONTests.observe)}"# + "\n"

    @Test func aCallIsInThePipeWhenItIsSent() throws {
        let pipe = try Pipe()
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        let (offer, conversation) = send([Calls.observe(3)], to: turn)
        #expect(offer?.isTimed == true)
        #expect(pipe.contents() == Self.line)
        let sent = try #require(turn.takeBack())
        #expect(sent.conversation === conversation && sent.id == 7 && sent.rest.isEmpty)
        #expect(sent.size == Self.line.utf8.count)
    }

    @Test func onlyOneHasTheTurn() throws {
        let pipe = try Pipe()
        #expect(send([Calls.observe(3)], to: turn).0 == nil)
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        #expect(send(Calls.observes(2), to: turn).0 == nil)
        #expect(send([Calls.observe(3)], to: turn).0 != nil)
        #expect(send([Calls.observe(4)], to: turn).0 == nil)
        // Nothing is offered before the call that was sent is known.
        turn.offer(.init(id: 8, input: pipe.input, isTimed: true))
        #expect(send([Calls.observe(4)], to: turn).0 == nil)
        #expect(turn.takeBack()?.id == 7)
        #expect(turn.takeBack() == nil)
        #expect(send([Calls.observe(4)], to: turn).0 == nil)
        #expect(pipe.contents() == Self.line)
    }

    @Test func anOfferThatIsTakenBackIsNone() throws {
        let pipe = try Pipe()
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        #expect(turn.takeBack() == nil)
        #expect(send([Calls.observe(3)], to: turn).0 == nil)
        #expect(pipe.contents() == "")
    }

    @Test func afterTheEndThereIsNoOffer() throws {
        let pipe = try Pipe()
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        turn.end()
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        #expect(send([Calls.observe(3)], to: turn).0 == nil)
        #expect(turn.takeBack() == nil)
    }

    @Test func whatHasNoRoomIsLeftToTheLoop() throws {
        let pipe = try Pipe()
        turn.offer(.init(id: 7, input: pipe.input, isTimed: true))
        #expect(send([Calls.observe(3, rows: 1...10_000)], to: turn).0 != nil)
        let sent = try #require(turn.takeBack())
        let written = pipe.contents()
        #expect(written.utf8.count == 65_536)
        let text = written + String(decoding: sent.rest, as: UTF8.self)
        #expect(text.hasSuffix("}\n") && text.utf8.count == sent.size)

        turn.offer(.init(id: 8, input: pipe.input, isTimed: true))
        pipe.fill()
        #expect(send([Calls.observe(4)], to: turn).0 == nil)
        #expect(turn.takeBack() == nil)
    }

    /// The plugin ends if a request comes out of order, and refuses one that it had before.
    private static let strict = """
        last, had = 0, set()
        for r in requests():
            token = r["params"]["transaction"]["token"]
            if r["id"] != last + 1: sys.exit("%d came after %d" % (r["id"], last))
            last = r["id"]
            answer(r) if token not in had else print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "error": {"message": "twice"}}), flush=True)
            had.add(token)
        """

    /// One call after the other, from threads that are not the loop's.
    private static func observe(_ numbers: Range<Int64>, _ plugin: CoprocessPlugin) async -> [HookFailure] {
        var failures: [HookFailure] = []
        for number in numbers {
            let answer = await withCheckedContinuation { continuation in
                _ = plugin.begin(.observe([Calls.observe(number)])) { continuation.resume(returning: $0) }
            }
            if case .observed(let outcome) = answer, let failure = outcome.failure { failures.append(failure) }
        }
        return failures
    }

    @Test func manyThreadsWithOneCallEachKeepTheOrder() async throws {
        let scripts = try Scripts()
        try await withCoprocess(try scripts.python(Self.strict)) { plugin in
            await withTaskGroup { group in
                for thread in 0..<8 as Range<Int64> {
                    group.addTask {
                        await onPool { await Self.observe(thread * 1000 + 1..<thread * 1000 + 101, plugin) }
                    }
                }
                for await failures in group { #expect(failures == []) }
            }
        }
    }

    @Test func whatComesWhileACallIsUnderWayComesBehindIt() async throws {
        let scripts = try Scripts()
        try await withCoprocess(try scripts.python(Self.strict)) { plugin in
            #expect(await plugin.observe([Calls.observe(1)]).succeeded == 1)
            let (answers, answer) = AsyncStream<HookAnswer>.makeStream()
            // The loop learns of the second before it can read the first one's answer.
            try HistoryLoop.shared().soon {
                for number in 2...4 as ClosedRange<Int64> {
                    _ = plugin.begin(.observe([Calls.observe(number)])) { answer.yield($0) }
                }
            }
            var failures: [HookFailure?] = []
            for await case .observed(let outcome) in answers {
                failures.append(outcome.failure)
                if failures.count == 3 { break }
            }
            #expect(failures == [nil, nil, nil])
        }
    }

    @Test func aCallIsSentWhileTheLoopIsBusy() async throws {
        let scripts = try Scripts()
        let came = scripts.path("came")
        try #require(mkfifo(came, 0o600) == 0)
        let command =
            try scripts.python(
                """
                for r in requests():
                    if r["params"]["transaction"]["token"].endswith(":2"): open(sys.argv[1], "w").write("came")
                    answer(r)
                """) + [came]
        try await withCoprocess(command) { plugin in
            // After its answer, the plugin is known to be idle.
            #expect(await plugin.observe([Calls.observe(1)]).succeeded == 1)
            let outcome = await withCheckedContinuation { continuation in
                try? HistoryLoop.shared().soon {
                    let isThere = TimedSemaphore()
                    _ = startThread {
                        _ = plugin.begin(.observe([Calls.observe(2)])) { continuation.resume(returning: $0) }
                        // It has an end once the plugin has opened it.
                        let file = open(came, O_RDONLY | O_CLOEXEC)
                        close(file)
                        isThere.signal()
                    }
                    #expect(isThere.wait(atMost: .seconds(60)))
                }
            }
            guard case .observed(let result) = outcome else {
                Issue.record("It was not observed.")
                return
            }
            #expect(result.succeeded == 1 && result.failure == nil)
        }
    }

    /// The first call to a process has the loop watch the time, and later ones find that it does.
    @Test(arguments: [0, 1]) func aPluginThatIsSilentIsKilled(answers: Int64) async throws {
        let scripts = try Scripts()
        let answer = #"read -r line; printf '{"jsonrpc":"2.0","id":1,"result":null}\n'; "#
        let command = try scripts.sh((answers == 1 ? answer : "") + "while read -r line; do :; done")
        try await withCoprocess(command, timeout: .seconds(5)) { plugin in
            try await plugin.waitUntilStarted()
            #expect(await Self.observe(0..<answers, plugin) == [])
            let failures = await Self.observe(answers..<answers + 1, plugin)
            #expect(failures.map(\.reason) == [.timedOut], "\(failures)")
        }
    }

    @Test func noCallIsMadeAfterTheLastOne() async throws {
        let scripts = try Scripts()
        try await withCoprocess(try scripts.python("for r in requests(): answer(r)")) { plugin in
            #expect(await plugin.observe([Calls.observe(1)]).succeeded == 1)
            plugin.finishCalls()
            let outcome = await plugin.observe([Calls.observe(2)])
            #expect(outcome.succeeded == 0 && outcome.failure == nil)
        }
    }
}
