import FoundationEssentials
import PersistentHistory
import Testing

@testable import HistoryPlugins

/// How a plugin is told that its consumer has lost history.
@Suite(.timeLimit(.minutes(60))) struct ExpiredCallTests {
    private static let call = ExpiredCall(
        header: Calls.header,
        expiry: Expiry(
            reason: .expired, lost: HistoryToken(store: Calls.store, number: 3),
            after: HistoryToken(store: Calls.store, number: 9)))

    private static let parameters = """
        {"store":"contacts","consumer":"MainApp","hook":"test/hook",\
        "hookID":"00010203-0405-0607-0809-0A0B0C0D0E0F","delivery":"d1",\
        "reason":"expired","lost":"00000000-0000-0000-0000-000000000001:3","after":"00000000-0000-0000-0000-000000000001:9"}
        """

    @Test func coprocess() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            for line in sys.stdin:
                open(sys.argv[0] + ".log", "a").write(line)
                answer(json.loads(line))
            """)
        try await withCoprocess(command) { plugin in try await plugin.expired(Self.call) }
        #expect(
            try scripts.contents(of: "plugin.py.log")
                == #"{"jsonrpc":"2.0","id":1,"method":"expired","params":\#(Self.parameters)}"# + "\n")
    }

    @Test(
        "Who does not know the method counts as told; any other error is one, and so is this of another method")
    func unknownMethod() async throws {
        let scripts = try Scripts()
        let command = try scripts.python(
            """
            codes = [-32601, -32601, -32000]
            for request in requests():
                error = {"code": codes.pop(0), "message": "no"}
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
            """)
        try await withCoprocess(command) { plugin in
            try await plugin.expired(Self.call)
            #expect(await plugin.observe([Calls.observe(1)]).failure?.reason == .refused)
            await #expect { try await plugin.expired(Self.call) } throws: {
                ($0 as? HookFailure)?.reason == .refused
            }
        }
    }

    @Test func oneshotPlugin() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh(#"cat > "$0.log"; echo "$HISTORYD_METHOD" >> "$0.log""#)
        try await oneshot(command).expired(Self.call)
        #expect(try scripts.contents(of: "plugin.sh.log") == Self.parameters + "\nexpired\n")
        await #expect { try await oneshot(["false"]).expired(Self.call) } throws: {
            ($0 as? HookFailure)?.reason == .refused
        }
    }
}
