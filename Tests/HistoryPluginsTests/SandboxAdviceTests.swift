import Glibc
import HistoryConfiguration
import PersistentHistory
import Testing

@testable import HistoryPlugins

/// What runtimes say where the sandbox stops them, as they were seen to say it, and what is advised.
@Suite struct SandboxAdviceTests {
    private static let open = SandboxLimits(forbidding: .machineCode)

    @Test(
        arguments: [
            (
                ProcessEnd.signaled(SIGTRAP), "# Fatal error in , line 0 / # Check failed: SetPermissions",
                .machineCode
            ),
            (.signaled(SIGTRAP), "", .machineCode),
            (.exited(1), "luajit: failed to allocate executable memory", .machineCode),
            (.exited(1), "OSError: [Errno 97] Address family not supported by protocol", .network),
            (.exited(1), "getaddrinfo EAI_AGAIN example.org", .network),
            (.exited(1), "ModuleNotFoundError: No module named 'x'", nil),
            (.signaled(SIGKILL), "", nil),
        ] as [(ProcessEnd, String, SandboxLimits.Need?)])
    func causes(end: ProcessEnd, text: String, need: SandboxLimits.Need?) {
        #expect(SandboxAdvice.need(after: end, saying: text) == need)
    }

    @Test func whatTheSandboxAllowsIsNotAdvised() {
        let text = "Address family not supported"
        #expect(SandboxAdvice.text(after: .exited(1), saying: text, within: Self.open) == "")
        let network = SandboxLimits(forbidding: .network)
        #expect(SandboxAdvice.text(after: .signaled(SIGTRAP), saying: nil, within: network) == "")
        let advice = SandboxAdvice.text(after: .exited(1), saying: text, within: network)
        #expect(advice.hasPrefix(" The unit's sandbox keeps plugins from the network"), "\(advice)")
    }

    @Test func theFirstLinesAndTheLastAreKept() {
        let tail = ErrorTail()
        #expect(tail.text == nil)
        for line in 1...5 { tail.add("\(line)") }
        #expect(tail.text == "1 / 2 / 3 / 4 / 5")
        for line in 6...100 { tail.add("\(line)") }
        #expect(tail.text == "1 / 2 / … / 98 / 99 / 100")
        #expect(tail.last == "100")
        // A long first line does not hide the last one.
        let long = ErrorTail()
        for line in [String(repeating: "x", count: 10_000), "the reason"] { long.add(line) }
        #expect(long.text?.hasSuffix("… / the reason") ?? false)
        #expect((long.text?.count ?? 0) < 400)
    }

    private static let files = [
        "/usr/bin/node": "\u{7F}ELF", "/usr/bin/python3": "\u{7F}ELF", "/h/hook.js": "fetch('x')",
        "/h/hook.py": "#!/usr/bin/env python3\nfrom historyd import plugin\n",
        "/h/jitless": "#!/usr/bin/env -S node --jitless\n", "/h/hook.sh": "#!/bin/sh\ncurl -s x\n",
        "/h/plain.sh": "#!/bin/sh\n", "/h/bin": "\u{7F}ELF",
    ]

    @Test func theInterpreterIsWhatIsStarted() {
        func check(_ command: String...) -> InterpreterCheck? {
            InterpreterCheck(command, path: "/bin:/usr/bin") { Self.files[$0] }
        }
        let node = check("/usr/bin/node", "--max-old-space-size=64", "/h/hook.js", "argument")
        #expect(node?.command == ["/usr/bin/node", "--max-old-space-size=64", "-e", "0"])
        #expect(node?.seemsToUseNetwork == true)
        #expect(check("/h/jitless")?.command == ["/usr/bin/node", "--jitless", "-e", "0"])
        let python = check("/h/hook.py")?.command
        #expect(python?.first == "/usr/bin/python3" && python?.last == "/h")
        #expect(python?.contains { $0.hasSuffix("import historyd") } == true)
        #expect(check("/h/hook.sh")?.command == [] && check("/h/hook.sh")?.seemsToUseNetwork == true)
        #expect(check("/h/plain.sh") == nil && check("/h/bin") == nil && check() == nil)
    }
}
