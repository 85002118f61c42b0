import FoundationEssentials
import Glibc
import PersistentHistory
import Testing

@testable import HistoryPlugins

/// Whatever a plugin does: afterwards no descriptor is open and no child is left. In a process of
/// its own, since other tests open and start things meanwhile.
@Suite(.timeLimit(.minutes(60))) struct LeakTests {
    @Test func nothingIsLeftBehind() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
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
                print("LEFT behind: before \(before), after \(after)")
                return
            }
        }
        let said = String(decoding: result?.standardOutputContent ?? [], as: UTF8.self)
        #expect(!said.contains("LEFT"), "\(said)")
    }
}

private struct Holdings: Hashable {
    /// What the descriptors lead to: pipes and sockets by their inodes.
    let descriptors: [String]
    let children: [String]

    init() throws {
        let files = FileManager.default
        descriptors = try files.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { number in
            // The folder that was read itself is gone by now.
            try? files.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
        }
        // The runtime keeps one for each clock from when it first has to wait for it, which a sleep
        // that is over by the time it is looked at does not need. We have none.
        // The loop's thread has its own times open in a debug build, from some moment on.
        .filter { $0 != "anon_inode:[timerfd]" && !$0.hasSuffix("/schedstat") }.sorted()
        children = try files.contentsOfDirectory(atPath: "/proc/self/task").flatMap { thread in
            // A thread may have ended since.
            let children = try? String(contentsOfFile: "/proc/self/task/\(thread)/children", encoding: .utf8)
            return (children ?? "").split(separator: " ").map(String.init)
        }
    }
}
