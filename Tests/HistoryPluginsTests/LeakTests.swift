import FoundationEssentials
import Glibc
import PersistentHistory
import Testing

@testable import HistoryPlugins

/// Whatever a plugin does: afterwards no descriptor is open and no child is left. In a process of
/// its own, since other tests open and start things meanwhile.
@Suite(.timeLimit(.minutes(2))) struct LeakTests {
    @Test func nothingIsLeftBehind() async {
        await #expect(processExitsWith: .success) {
            // What is opened once for the whole process.
            _ = await oneshot(["true"]).observe([Calls.observe(1)])
            let before = try Holdings()
            let deeds = [
                "for r in requests(): answer(r)", "sys.exit(3)", "os.close(1); time.sleep(1000)",
                "time.sleep(1000)", "print('x', flush=True); time.sleep(1000)", "os.fork(); time.sleep(1000)",
                "os.close(0); time.sleep(1000)",
            ]
            for deed in deeds {
                let scripts = try Scripts()
                let command = try scripts.python(deed)
                try await withCoprocess(command, timeout: .milliseconds(300), grace: .milliseconds(20)) {
                    plugin in
                    _ = await plugin.observe(Calls.observes(3))
                    _ = await plugin.observe([Calls.observe(1, rows: 1...10_000)])
                }
                _ = await oneshot(command, timeout: .milliseconds(300)).observe([Calls.observe(1)])
            }
            for command in [[], ["/does/not/exist"]] {
                try await withCoprocess(command) { _ = await $0.observe([Calls.observe(1)]) }
                _ = await oneshot(command).observe([Calls.observe(1)])
            }
            let after = try Holdings()
            guard before == after else {
                Issue.record("before \(before), after \(after)")
                return
            }
        }
    }
}

private struct Holdings: Hashable {
    let descriptors: [String]
    let children: [String]

    init() throws {
        descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            number in
            // The one that lists the folder is closed again.
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
            // The runtime opens a timer when it first has to sleep in a certain way, and keeps it.
            return target == "anon_inode:[timerfd]" ? nil : target
        }.sorted()
        children = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").flatMap { thread in
            // A thread may have ended since.
            let children = try? String(contentsOfFile: "/proc/self/task/\(thread)/children", encoding: .utf8)
            return (children ?? "").split(separator: " ").map(String.init)
        }
    }
}
