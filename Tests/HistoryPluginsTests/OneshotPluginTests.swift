import FoundationEssentials
import Glibc
import Logging
import PersistentHistory
import Testing

@testable import HistoryPlugins

@Suite(.timeLimit(.minutes(60))) struct OneshotPluginTests {
    @Test func callIsWhatIsPromised() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh(
            """
            cat > "$0.log"
            env | grep '^HISTORYD_' | sort >> "$0.log"
            echo noise
            """)
        let outcome = await oneshot(command).observe([Calls.observe(3)])
        #expect(outcome.succeeded == 1)
        #expect(outcome.failure == nil)
        #expect(
            try scripts.contents(of: "plugin.sh.log") == """
                \(CallJSONTests.observe)
                HISTORYD_CONSUMER=MainApp
                HISTORYD_DELIVERY=d1
                HISTORYD_HOOK=test/hook
                HISTORYD_METHOD=observe
                HISTORYD_STORE=contacts

                """)
    }

    @Test func mergeReadsWhatIsPrinted() async throws {
        let scripts = try Scripts()
        let result = try await oneshot(try scripts.sh("cat > \"$0.log\"; echo finish")).merge(Calls.merge)
        #expect(result == MergeResult(.finish))
        #expect(try scripts.contents(of: "plugin.sh.log") == CallJSONTests.merge + "\n")
        #expect(try await oneshot(["true"]).merge(Calls.merge) == MergeResult(.goOn))
        await #expect { try await oneshot(["echo", "what"]).merge(Calls.merge) } throws: {
            ($0 as? HookFailure)?.reason == .badAnswer
        }
    }

    /// The second call of three.
    @Test(
        arguments: [
            ("echo oops >&2; exit 3", .refused, "Hook \"test/hook\" ended with status 3: oops"),
            ("exit 4", .refused, "ended with status 4."),
            ("kill -SEGV $$", .died, "was killed by signal 11"),
            ("sleep 1000", .timedOut, "did not end within 1.0 seconds"),
            ("trap '' TERM; sleep 1000 & sleep 1000", .timedOut, "did not end"),
            ("exec >&- 2>&- <&-; sleep 1000", .timedOut, "did not end"),
            ("yes", .timedOut, "did not end"),
            ("yes >&2", .timedOut, "did not end"),
        ] as [(String, HookFailure.Reason, String)])
    func misbehaviour(_ deed: String, _ reason: HookFailure.Reason, _ message: String) async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("case $(cat) in *-000000000001:2*) \(deed) ;; esac")
        let plugin = oneshot(command, timeout: reason == .timedOut ? .seconds(1) : .seconds(60))
        let outcome = await plugin.observe(Calls.observes(3))
        #expect(outcome.succeeded == 1)
        #expect(outcome.failure?.reason == reason)
        #expect(outcome.failure?.message.contains(message) == true, "\(outcome.failure?.message ?? "none")")
    }

    /// The last line is the reason.
    @Test(
        arguments: [
            (
                "echo one >&2; echo two >&2; exit 75", "Hook \"test/hook\" ended with status 75: two.",
                .retryAfter(nil)
            ),
            (
                "echo no such person >&2; exit 65", "Hook \"test/hook\" ended with status 65: no such person.",
                .permanent
            ),
            ("exit 65", "Hook \"test/hook\" ended with status 65.", .permanent),
            ("echo one >&2; echo two >&2; exit 1", "Hook \"test/hook\" ended with status 1: one / two.", nil),
        ] as [(String, String, HookFailure.Advice?)])
    func statusesThatAdvise(_ script: String, _ message: String, _ advice: HookFailure.Advice?) async throws {
        let scripts = try Scripts()
        let plugin = oneshot(try scripts.sh("cat >/dev/null; " + script))
        let failure = HookFailure(.refused, message, advice: advice)
        #expect(await plugin.observe([Calls.observe(1)]).failure == failure)
        await #expect(throws: failure) { try await plugin.merge(Calls.merge) }
    }

    /// What is odd, but well: only the status counts.
    @Test(arguments: [
        "exit 0", "exec <&-; exit 0", "exec >&- 2>&-; exit 0", "sleep 1000 & exit 0",
        "yes | head -c 3000000; exit 0",
        "yes | head -c 3000000 >&2; exit 0", "setsid sleep 3 & exit 0",
    ]) func oddButWell(_ script: String) async throws {
        let scripts = try Scripts()
        // The input is larger than a pipe holds.
        let outcome = await oneshot(try scripts.sh(script)).observe([Calls.observe(1, rows: 1...10_000)])
        #expect(outcome.succeeded == 1)
        #expect(outcome.failure == nil)
    }

    @Test func aResultWithoutEnd() async throws {
        await #expect { try await oneshot(["yes"]).merge(Calls.merge) } throws: {
            ($0 as? HookFailure)?.reason == .badAnswer
        }
    }

    @Test func whatCannotBeStarted() async throws {
        let scripts = try Scripts()
        let plain = try scripts.write("#!/bin/sh\n", as: "plain")
        for (command, message) in [
            ([], "No such file"), (["/does/not/exist"], "No such file"),
            ([plain], #""\#(plain)" is not executable; use "chmod +x"."#),
        ] {
            let outcome = await oneshot(command).observe([Calls.observe(1)])
            #expect(outcome.failure?.reason == .cannotStart)
            #expect(outcome.failure?.message.contains(message) == true, "\(outcome.failure?.message ?? "")")
        }
    }

    @Test func cancellationKillsTheGroup() async throws {
        let scripts = try Scripts()
        let command = try scripts.sh("sleep 1000 & echo $! >&2; wait")
        let journal = Journal()
        let task = Task { await oneshot(command, journal: journal).observe(Calls.observes(3)) }
        var background: pid_t?
        for await entry in journal.stream where entry.level == .info {
            #expect(entry.metadata == ["plugin": "test", "hook": "test/hook"])
            background = pid_t(entry.text)
            break
        }
        task.cancel()
        let outcome = await task.value
        #expect(outcome.succeeded == 0 && outcome.failure == nil)
        let process = try #require(background)
        try await until { isGone(process) }
        let merge = Task { try await oneshot(["sleep", "1000"]).merge(Calls.merge) }
        merge.cancel()
        await #expect { try await merge.value } throws: { ($0 as? HookFailure)?.reason == .cancelled }
    }
}
