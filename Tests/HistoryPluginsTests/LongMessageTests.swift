import FoundationEssentials
import TestSupport
import Testing

@testable import HistoryPlugins
@testable import PersistentHistory

/// Messages that are so long that the loop would stand still over them. That they are read and written elsewhere is
/// asserted where it is done (`assertMayWait`).
@Suite(.timeLimit(.minutes(60))) struct LongMessageTests {
    @Test("Answers of any length keep their order, and what comes behind a long one is read after it")
    func answers() async throws {
        let scripts = try Scripts()
        // All at once, so that short ones come in one piece with long ones.
        let command = try scripts.python(
            """
            out = []
            for r in requests():
                n = r["params"]["transaction"]["token"].split(":")[1]
                out.append(json.dumps({"id": r["id"], "result": "x" * (200000 if int(n) % 3 == 0 else 10)}))
                if len(out) == 8:
                    sys.stdout.write("\\n".join(out) + "\\n"); sys.stdout.flush(); out = []
            """)
        try await withCoprocess(command, window: .init(calls: 8, bytes: 1 << 20)) { plugin in
            for _ in 1...3 {
                let outcome = await plugin.observe((1...24).map { Calls.observe($0) })
                #expect(outcome.succeeded == 24)
                #expect(outcome.failure == nil)
            }
        }
    }

    @Test("A long refusal, and a long answer that is none, are told apart as short ones are")
    func failures() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for r in requests():
                n = int(r["params"]["transaction"]["token"].split(":")[1])
                if n == 1: print(json.dumps({"id": r["id"], "error": {"code": 1, "message": "y" * 100000}}), flush=True)
                elif n == 2: print("z" * 100000, flush=True)
                else: answer(r)
            """)
        try await withCoprocess(command) { plugin in
            let refused = await plugin.observe([Calls.observe(1)])
            #expect(refused.failure?.reason == .refused)
            let nonsense = await plugin.observe([Calls.observe(2)])
            #expect(nonsense.failure?.reason == .badAnswer)
            #expect(nonsense.failure?.message.contains("is not a JSON-RPC response: zzz") == true)
            #expect(await plugin.observe([Calls.observe(3)]).succeeded == 1)
        }
    }

    @Test("A process that ends behind a long answer has answered")
    func lastWord() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            "for r in requests():\n    answer(r, 'x' * 300000)\n    if not os.path.exists(sys.argv[0] + '.done'): open(sys.argv[0] + '.done', 'w'); os._exit(0)"
        )
        try await withCoprocess(command) { plugin in
            #expect(await plugin.observe([Calls.observe(1)]).succeeded == 1)
        }
    }

    @Test("Long calls are in order with short ones, of one consumer and of several")
    func calls() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            last = {}
            for r in requests():
                store, n = r["params"]["transaction"]["token"].split(":")
                assert int(n) > last.get(r["params"]["consumer"], 0), n
                last[r["params"]["consumer"]] = int(n)
                answer(r)
            """)
        #expect(Calls.observe(1, rows: 1...2000).isLonger(than: LongMessage.bytes))
        #expect(!Calls.observe(1).isLonger(than: LongMessage.bytes))
        try await withCoprocess(command) { plugin in
            let outcomes = await withTaskGroup(of: ObserverOutcome.self) { group in
                for consumer in ["A", "B", "C"] {
                    group.addTask {
                        await plugin.observe(
                            (1...60).map { Calls.observe($0, rows: 1...($0 % 4 == 0 ? 2000 : 1), of: consumer) }
                        )
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes.map(\.succeeded) == [60, 60, 60])
            #expect(outcomes.allSatisfy { $0.failure == nil })
        }
    }
}
