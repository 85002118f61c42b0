import Testing

@testable import HistoryPlugins
@testable import PersistentHistory

/// What a plugin that keeps a context reads, and what its answers mean.
@Suite(.timeLimit(.minutes(60))) struct ContextCallTests {
    private struct Nothing: ContextEndpoint {
        func call(_ call: ContextCall, of process: Int?) async throws(HookFailure) -> ContextAnswer {
            throw HookFailure(.died, "nothing")
        }
    }

    private static func token(_ number: Int64) -> HistoryToken {
        HistoryToken(store: Calls.store, number: number)
    }

    private static func call(_ request: ContextCall.Request) -> ContextCall {
        ContextCall(
            request, context: PluginContext(name: "index", plugin: "test", entities: nil, endpoint: Nothing()),
            store: ("contacts", "/srv/c.sqlite"), consumer: "MainApp")
    }

    private static let merge = call(.merge([], after: token(3), through: token(5), part: nil))

    @Test(
        "Calls as they are written",
        arguments: [
            (call(.checkpoint), #"}"#),
            (merge, #","after":"S:3","through":"S:5","transactions":[]}"#),
            (
                call(.merge([], after: token(3), through: token(3), part: CallPart(index: 0, isLast: false))),
                #","after":"S:3","through":"S:3","part":{"index":0,"last":false},"transactions":[]}"#
            ),
            (
                call(.refill(entities: ["a\"b", "item"], through: token(9))),
                #","through":"S:9","entities":["a\"b","item"]}"#
            ),
            (
                call(.expired(Expiry(reason: .restored, lost: nil, after: token(9)))),
                #","reason":"restored","lost":null,"after":"S:9"}"#
            ),
        ])
    func parameters(_ call: ContextCall, _ end: String) async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for line in sys.stdin:
                open(sys.argv[0] + ".log", "a").write(line)
                answer(json.loads(line))
            """)
        try await withCoprocess(command) { plugin in _ = try await plugin.call(call, of: nil) }
        let head = #"{"store":"contacts","consumer":"MainApp","context":"index","path":"/srv/c.sqlite""#
        let parameters = head + end.replacing("S:", with: "\(Calls.store):")
        #expect(
            try scripts.contents(of: "plugin.py.log")
                == #"{"jsonrpc":"2.0","id":1,"method":"\#(call.method)","params":\#(parameters)}"# + "\n")
    }

    @Test("What answers mean")
    func answers() throws {
        func result(_ outcome: PluginAnswer.Outcome, _ call: ContextCall) -> String {
            do throws(HookFailure) {
                return "\(try ContextAnswer.result(outcome, to: call, "It"))"
            } catch {
                return "\(error.reason): \(error)"
            }
        }
        let (checkpoint, expired) = (
            Self.call(.checkpoint),
            Self.call(.expired(Expiry(reason: .expired, lost: nil, after: Self.token(1))))
        )
        #expect(result(.null, checkpoint) == "checkpoint(nil)")
        #expect(
            try ContextAnswer.result(.text("\(Self.token(7))"), to: checkpoint, "It")
                == .checkpoint(Self.token(7)))
        #expect(result(.methodUnknown("no"), checkpoint) == "checkpointUnknown")
        #expect(result(.methodUnknown("no"), expired) == "done")
        #expect(result(.other, Self.merge) == "done")
        #expect(result(.text("goOn"), Self.merge) == "done")
        #expect(
            result(.methodUnknown("no"), Self.merge)
                == "refused: It does not know the method context.merge, which a context needs: no.")
        #expect(
            result(.refused("no"), Self.merge) == "refused: It answered to context.merge with an error: no.")
        #expect(
            result(.text("7"), checkpoint)
                == "badAnswer: It answered to context.checkpoint \"7\", which is not a token.")
        #expect(
            result(.other, checkpoint)
                == "badAnswer: It gave no answer to context.checkpoint. That is a token, or null where the context is to be filled."
        )
    }

    @Test("A call for a process that is gone is not made")
    func anotherProcess() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for line in sys.stdin:
                open(sys.argv[0] + ".log", "a").write(line)
                if "merge" in line: os._exit(3)
                answer(json.loads(line))
            """)
        try await withCoprocess(command) { plugin in
            let first = try await plugin.call(Self.call(.checkpoint), of: nil)
            #expect(first.result == .checkpoint(nil))
            await #expect { _ = try await plugin.call(Self.merge, of: first.process) } throws: {
                ($0 as? HookFailure)?.reason == .died
            }
            #expect(try await plugin.call(Self.merge, of: first.process).result == .notMade)
            let second = try await plugin.call(Self.call(.checkpoint), of: nil)
            #expect(second.process != first.process)
        }
        #expect(try scripts.contents(of: "plugin.py.log").split(separator: "\n").count == 3)
    }
}
