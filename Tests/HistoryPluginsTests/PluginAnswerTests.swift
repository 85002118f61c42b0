import FoundationEssentials
import Testing

@testable import HistoryPlugins
@testable import PersistentHistory

@Suite struct PluginAnswerTests {
    private static func read(_ line: String) -> PluginAnswer? { PluginAnswer(line: Array(line.utf8)[...]) }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","id":7,"result":null}"#,
        #" { "result" : null , "id" : 7 , "jsonrpc" : "2.0" } "#,
        "{\"id\":7,\"result\":null}\r",
        #"{"id":7,"result":null,"error":null,"extra":[1,{"a":"}"}]}"#,
        #"{"\u0069d":7,"result":null}"#,
        #"{"id":7.0,"result":null}"#,
    ]) func null(_ line: String) {
        let answer = Self.read(line)
        #expect(answer?.id == 7)
        #expect(answer?.outcome == .null)
    }

    /// The forms that are read without a decoder, and another one, mean the same.
    @Test(arguments: [
        "0", "7", "007", "999999999999999999", "9999999999999999999", "-7", "7.0", "", "7,", "7e2",
    ])
    func theShortWayReadsWhatTheLongOneDoes(_ id: String) {
        let short = Self.read(#"{"jsonrpc":"2.0","id":\#(id),"result":null}"#)
        let long = Self.read(#"{"id":\#(id),"result":null}"#)
        #expect(short == long)
        #expect(Self.read(#"{"jsonrpc": "2.0","id":\#(id),"result":null}"#) == short)
        #expect(Self.read(#"{"jsonrpc": "2.0", "id": \#(id), "result": null}"#) == short)
        #expect(Self.read(#"{"jsonrpc":"2.0","id":\#(id),"result":nil!}"#) == nil)
    }

    @Test func results() {
        #expect(Self.read(#"{"id":1,"result":"goOn"}"#)?.outcome == .text("goOn"))
        #expect(Self.read(#"{"id":1,"result":"ü\n"}"#)?.outcome == .text("ü\n"))
        #expect(
            Self.read(#"{"id":1,"result":{"verdict":"finish","reject":["a"]}}"#)?.outcome
                == .verdict("finish", reject: ["a"]))
        #expect(Self.read(#"{"id":1,"result":{"ok":true}}"#)?.outcome == .other)
        for other in ["3", "true", "false", "{}", "{ }", " {} ", "[]"] {
            #expect(Self.read(#"{"id":1,"result":\#(other)}"#)?.outcome == .other, "\(other)")
            #expect(Self.read(#"{"result":\#(other),"id":1}"#)?.outcome == .other, "\(other)")
        }
        #expect(
            Self.read(#"{"id":1,"error":{"code":-32601,"message":"no such method"}}"#)?.outcome
                == .methodUnknown("no such method"))
        #expect(Self.read(#"{"id":1,"result":null,"error":{"code":-5}}"#)?.outcome == .refused("error -5"))
        // Beyond what an integer holds: a conversion would end the daemon.
        #expect(Self.read(#"{"id":1,"error":{"code":1e300}}"#)?.outcome == .refused("error 1e+300"))
        #expect(Self.read(#"{"id":1,"error":{"code":-1.5}}"#)?.outcome == .refused("error -1.5"))
        #expect(
            Self.read(#"{"id":null,"error":{"message":"parse error"}}"#)?.outcome == .refused("parse error"))
    }

    /// What cannot be meant is ignored: the call has failed all the same.
    @Test(
        arguments: [
            (#"{"retryAfter":"20s"}"#, .retryAfter(.seconds(20))),
            (#"{"retryAfter":"500ms","other":1}"#, .retryAfter(.milliseconds(500))),
            (#"{"retryAfter":1.5}"#, .retryAfter(.milliseconds(1500))),
            (#"{"retryAfter":0}"#, .retryAfter(.zero)),
            (#"{"retryAfter":"30"}"#, .retryAfter(.seconds(30))),
            (#"{"retryAfter":"36500d"}"#, .retryAfter(.seconds(86_400))),
            (#"{"retryAfter":1e300}"#, .retryAfter(.seconds(86_400))),
            (#"{"permanent":true}"#, .permanent), (#"{"permanent":true,"retryAfter":"20s"}"#, .permanent),
            (#"{"permanent":false,"retryAfter":"20s"}"#, .retryAfter(.seconds(20))),
            (#"{"permanent":false}"#, nil), (#"{"permanent":"yes"}"#, nil), (#"{"permanent":1}"#, nil),
            (#"{"retryAfter":"soon"}"#, nil), (#"{"retryAfter":"-1s"}"#, nil), (#"{"retryAfter":-1}"#, nil),
            (#"{"retryAfter":[20]}"#, nil), (#"{"retryAfter":null}"#, nil), ("{}", nil), ("[]", nil),
            ("null", nil), (#""permanent""#, nil), ("true", nil),
        ] as [(String, HookFailure.Advice?)])
    func adviceOfErrors(_ data: String, _ advice: HookFailure.Advice?) {
        let line = #"{"id":1,"error":{"code":1,"message":"no","data":\#(data)}}"#
        #expect(Self.read(line)?.outcome == .refused("no", advice))
    }

    @Test(arguments: [
        "", "x", "null", "[]", "{}", #"{"id":1}"#, #"{"id":"1","result":null}"#, #"{"id":1,"result":null"#,
        #"{"id":1,"result":nul}"#, #"{"id":1,"result":tru}"#, #"{"id":1,"result":truee}"#,
        #"{"id":1,"result":{}"#, #"{"id":1,"result":{}}}"#, #"{"id":1,"result":null}}"#,
        #"{"id":1.5,"result":null}"#,
        #"{"id":1 "result":null}"#,
        #"{"id":1,"result":null} {"id":2,"result":null}"#, #"{"id":99999999999999999999,"result":null}"#,
    ]) func nonsense(_ line: String) {
        #expect(Self.read(line) == nil)
    }

    @Test func invalidUTF8IsNonsense() {
        #expect(
            PluginAnswer(line: (Array(#"{"id":1,"result":""#.utf8) + [0xFF] + Array(#""}"#.utf8))[...]) == nil)
    }

    /// The reading in place and the decoder agree on every answer, whatever its order and spacing.
    @Test func anyOrderAndSpacing() throws {
        for _ in 0..<100 {
            func space() -> String { ["", " ", "\t", "  "].randomElement() ?? "" }
            let id = Int64.random(in: 0...1 << 58)
            let members = [
                #""jsonrpc"\#(space()):\#(space())"2.0""#, #""id"\#(space()):\#(space())\#(id)"#,
                #""result"\#(space()):"goOn""#,
            ]
            let line =
                space() + "{" + space() + members.shuffled().joined(separator: space() + "," + space())
                + space() + "}"
            let answer = Self.read(line)
            #expect(answer?.id == id, "\(line)")
            #expect(answer?.outcome == .text("goOn"), "\(line)")
        }
    }
}

@Suite struct MergeResultTests {
    private static func printed(_ text: String) throws -> MergeResult {
        try MergeResult(printed: Array(text.utf8), by: "p/h")
    }

    @Test func whatShellsPrint() throws {
        #expect(try Self.printed("") == MergeResult(.goOn))
        #expect(try Self.printed(" \n") == MergeResult(.goOn))
        #expect(try Self.printed("finish\n") == MergeResult(.finish))
        #expect(try Self.printed("\"finish\"\n") == MergeResult(.finish))
        #expect(
            try Self.printed(
                "{\"verdict\": \"goOn\",\n \"reject\": [\"00000000-0000-0000-0000-000000000001:4\", \"00000000-0000-0000-0000-000000000001:5\"]}\n"
            )
                == MergeResult(
                    .goOn,
                    rejecting: [
                        HistoryToken(store: Calls.store, number: 4),
                        HistoryToken(store: Calls.store, number: 5),
                    ]))
        #expect(try Self.printed("{\"verdict\":\"finish\"}") == MergeResult(.finish))
    }

    @Test(arguments: [
        "maybe", "\"maybe\"", "{}", "null", "3", "{\"verdict\":\"no\"}",
        "{\"verdict\":\"goOn\",\"reject\":[\"x\"]}",
        "goOn finish",
    ])
    func whatIsNone(_ text: String) {
        #expect { try Self.printed(text) } throws: { ($0 as? HookFailure)?.reason == .badAnswer }
    }
}

@Suite struct CallJSONTests {
    static let observe =
        #"{"store":"contacts","consumer":"MainApp","hook":"test/hook","hookID":"00010203-0405-0607-0809-0A0B0C0D0E0F","#
        + #""delivery":"d1","transaction":{"token":"00000000-0000-0000-0000-000000000001:3","author":"Widget","context":null,"processID":7,"#
        + #""timestamp":"1970-01-01T00:00:00.000Z"},"contexts":[{"entityName":"person","operation":"insert","#
        + #""objectID":{"id":1},"objectIDURL":"x-history://00000000-0000-0000-0000-000000000001/person/p1","timestamp":"1970-01-01T00:00:00.000Z","author":"Widget"}]}"#

    static let merge =
        #"{"store":"contacts","consumer":"MainApp","hook":"test/hook","hookID":"00010203-0405-0607-0809-0A0B0C0D0E0F","#
        + #""delivery":"d1","transactions":[{"token":"00000000-0000-0000-0000-000000000001:1","author":"Widget","context":null,"processID":7,"#
        + #""timestamp":"1970-01-01T00:00:00.000Z","changes":[{"entityName":"person","operation":"insert","#
        + #""objectID":{"id":1},"objectIDURL":"x-history://00000000-0000-0000-0000-000000000001/person/p1"}]}],"#
        + #""contexts":[{"name":"view","kind":"replica","path":"/r.sqlite"}]}"#

    private func text(_ body: (inout JSONBytes) -> Void) -> String {
        var json = JSONBytes()
        body(&json)
        return String(decoding: json.bytes.array, as: UTF8.self)
    }

    @Test func calls() {
        #expect(text { Calls.observe(3).write(to: &$0) } == Self.observe)
        #expect(text { Calls.merge.write(to: &$0) } == Self.merge)
        #expect(
            text { json in
                for id: Int64 in 7...8 {
                    CallJSON.writeRequest(id, .observe, to: &json) { Calls.observe(3).write(to: &$0) }
                }
            } == #"{"jsonrpc":"2.0","id":7,"method":"observe","params":\#(Self.observe)}"# + "\n"
                + #"{"jsonrpc":"2.0","id":8,"method":"observe","params":\#(Self.observe)}"# + "\n")
    }

    @Test func parts() {
        let whole = Calls.observe(3)
        let call = ObserverCall(
            header: whole.header, transaction: whole.transaction, changes: whole.changes,
            part: .init(index: 2, isLast: false))
        let expected = Self.observe.replacing(
            #""delivery":"d1","#, with: #""delivery":"d1","part":{"index":2,"last":false},"#)
        #expect(text { call.write(to: &$0) } == expected)
    }
}
