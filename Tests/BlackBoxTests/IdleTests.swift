import Foundation
import TestSupport
import Testing

/// What a daemon takes while nothing happens.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct IdleTests {
    @Test(
        "Nothing happens while nothing happens",
        .disabled(if: Sanitizers.watchThreads, "the thread sanitizer's own thread never sleeps"),
        arguments: Journal.allCases)
    func idle(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(
                StoreSetup(
                    authors:
                        #"[{"name": "Widget"}, {"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"}]}]"#,
                    more: #""clean": {"strategy": "byDuration", "seconds": "1h"}"#),
                plugins: [PluginSetup(), PluginSetup(name: "sh", behaviour: .recordInShell, mode: "oneshot")])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Writer")
            try await bench.calls(4, of: daemon)
            // What follows the last call: the merge, the cursor, the cleanup.
            try await daemon.quiet()
            // What comes once is over some time: a second later the sums of the journal and the counters, ten seconds
            // after its start a look at the plugin. What comes again and again would not be.
            let files = Processes.openFiles(daemon.processID)
            var spent = Duration.zero
            try await eventually("the daemon sleeps", state: { daemon.log.joined(separator: "\n") }) {
                let time = Processes.processorTime(daemon.processID)
                let wakeUps = try await daemon.wakeUps(in: .seconds(3))
                spent = Processes.processorTime(daemon.processID) - time
                return wakeUps <= 2
            }
            #expect(spent <= .milliseconds(20))
            // SQLite keeps the descriptor of a connection to the state that has ended beside another one, for the next.
            // A file that another test was writing when this one started the daemon may be inherited, too.
            func own(_ files: [String]) -> Set<String> {
                Set(files.filter { !$0.contains("/historyd-test-") || $0.hasPrefix(bench.folder.path) })
            }
            #expect(own(Processes.openFiles(daemon.processID)) == own(files))

            // It was awake all the time.
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Writer")
            try await bench.calls(8, of: daemon)
            try await daemon.stop()
        }
    }

    @Test(
        "A daemon sleeps beside a store that cannot be opened",
        .disabled(if: Sanitizers.watchThreads, "the thread sanitizer's own thread never sleeps"))
    func damaged() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("damaged.sqlite", String(repeating: "no database ", count: 1000))
            try bench.configure(
                StoreSetup(), StoreSetup(name: "damaged", path: "damaged.sqlite"), plugins: [])
            let daemon = try await bench.startDaemon()
            // A pool that looks at its threads each second would make five.
            try await eventually("the daemon sleeps", state: { daemon.log.joined(separator: "\n") }) {
                try await daemon.wakeUps(in: .seconds(5)) <= 2
            }
            try await daemon.stop()
        }
    }

    @Test("A store at rest has its state closed, and no pages in memory")
    func rest() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            // The first start tracks the store, and then looks what was committed.
            try await bench.startDaemon().stop()
            let daemon = try await bench.startDaemon()
            func mapped() -> [String: Int] { Processes.mapped(daemon.processID, suffix: "-shm") }
            try await eventually("nothing of the store is in memory", state: { "\(mapped())" }) {
                mapped().map { ($0.key.hasSuffix("/contacts.sqlite-shm"), $0.value) }.elementsEqual(
                    [(true, 0)], by: ==)
            }
            // It is served as ever.
            for id in 1...3 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Writer")
                try await bench.calls(id, of: daemon)
            }
            try await daemon.stop()
        }
    }

    @Test("Who waits and follows costs nothing while nothing happens, and is told when something does")
    func waiting() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.steer("pause")
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            let waiting = try bench.startCtl([
                "wait", "--consumer", "MainApp", "--token", token, "--timeout", "1h",
            ])
            let following = try bench.startCtl(["follow", "--after", token])
            try await eventually("both connections") {
                Processes.sockets(daemon.processID, bench.controlSocket) >= 2
            }
            try await daemon.quiet()
            #expect(try await daemon.wakeUps(in: .seconds(3)) <= 2)
            try await bench.steer("resume")
            #expect(try await waiting.succeed() == "\(token)\n")
            _ = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await eventually("the transaction") { following.output.wholeLines.count == 1 }
            try await daemon.stop()
        }
    }

    @Test("Many commits leave no descriptor and no process behind")
    func descriptors() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.mirrored(),
                    more: #""clean": {"strategy": "byNotification", "times": 1}"#),
                plugins: [PluginSetup(behaviour: .recordInShell, mode: "oneshot")])
            let daemon = try await bench.startDaemon()
            func commit(_ ids: ClosedRange<Int>) async throws {
                for id in ids {
                    try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Writer", from: .shell)
                    try await bench.calls(id, of: daemon)
                }
                try await eventually("the end of the oneshot processes") {
                    Processes.naming(bench.path("record.sh")).isEmpty
                }
            }
            try await commit(1...5)
            let before = Processes.descriptors(daemon.processID)
            try await commit(6...40)
            // A cleanup may just be under way.
            try await eventually(
                "as many descriptors as before, \(before)",
                state: { "\(Processes.descriptors(daemon.processID))" }
            ) {
                Processes.descriptors(daemon.processID) <= before
            }
            try await daemon.stop()
        }
    }
}
