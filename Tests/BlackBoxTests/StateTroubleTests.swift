import Foundation
import TestSupport
import Testing

/// A state folder that cannot be used for a while: the daemon waits, says why, and goes on by itself.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(5)))
struct StateTroubleTests {
    @Test("A state that is damaged is told in a line; a daemon waits until it is put back")
    func damaged() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let state = try bench.stateDatabase()
            for suffix in ["-wal", "-shm"] { unlink(state + suffix) }
            #expect(rename(state, bench.path("backup")) == 0)
            try String(repeating: "no database ", count: 1000).write(
                toFile: state, atomically: true, encoding: .utf8)
            let message =
                "The state database \"\(state)\" cannot be used: file is not a database. Restore it from a backup, or rescue it with sqlite3's \".recover\". Without it, the store's consumers start over."
            let once = try await bench.runDaemon("--once")
            #expect(once.status == .exited(74))
            #expect(once.log.filter { $0.hasPrefix("error") } == ["error: \(message) event=stateCorrupt"])

            let daemon = try await bench.startDaemon()
            try await daemon.sparing()
            #expect(daemon.problems(bench).count == 1)
            #expect(daemon.problems(bench).first?.hasSuffix("event=stateCorrupt") == true)
            let store = try await bench.report("status")["stores"][0]
            #expect(store["state"].text == "waiting" && store["problem"].text == message, "\(store)")
            #expect(rename(bench.path("backup"), state) == 0)
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=storeBack")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test(
        "A folder that can never be: a line without the dump of an error, and the status for input and output")
    func impossible() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            try bench.folder.write("file", "")
            for arguments in [[], ["--once"]] {
                let other = try bench.start(
                    [Products.historyd, "--config", bench.configuration] + arguments, "other\(arguments.count)",
                    environment: ["STATE_DIRECTORY": bench.path("file/state")])
                #expect(try await other.end() == .exited(74))
                #expect(
                    other.errors.wholeLines == [
                        "error: The state folder \"\(bench.path("file/state"))\" cannot be made: Not a directory. Set STATE_DIRECTORY to a writable folder. event=stateUnavailable"
                    ])
            }
        }
    }

    /// `--control-socket`, since the disk is seen by the daemon alone.
    private func socket(_ bench: Workbench) -> [String] { ["--control-socket", bench.path("control.sock")] }

    private func status(_ bench: Workbench) async throws -> Tree {
        try await bench.report("status", "--socket", bench.path("control.sock"))
    }

    @Test(
        "A disk that fills while the daemon runs",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)))
    func fills() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let disk = try await bench.startDaemon(withDisk: "state", socket(bench))
            let daemon = disk.daemon
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await disk.fill()
            try await bench.write(
                "INSERT INTO person (id) VALUES (2)", "INSERT INTO person (id) VALUES (3)", as: "Widget")
            let told = try await daemon.logged("event=stateUnavailable")
            #expect(told.contains("full") && !told.contains("Error Domain"), "\(told)")
            let report = try await status(bench)
            #expect("\(report)".contains("full"), "\(report)")
            #expect(report["summary"].text?.contains("state of 1 store not writable") == true, "\(report)")
            try await disk.makeRoom()
            try await daemon.logged("event=storeBack")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await eventually("all calls", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().contains { $0.summary.hasSuffix(" p4") }
            }
            try await daemon.stop()
            #expect(daemon.log.count { $0.contains("event=stateUnavailable") } == 1)
            // Who waits with the next step repeats none.
            #expect(
                try bench.calls().map(\.summary)
                    == (1...4).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test(
        "A disk that is full, or read-only, when the daemon starts",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)),
        arguments: [
            ("full", "! dd if=/dev/zero of=filler bs=4096 2>/dev/null", "rm filler"),
            ("read-only", "mount -o remount,ro .", "mount -o remount,rw ."),
            ("read-only", "touch historyd.lock && mount -o remount,ro .", "mount -o remount,rw ."),
        ])
    func atStart(_ word: String, _ trouble: String, _ remedy: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let disk = try await bench.startDaemon(
                withDisk: "state", before: trouble, socket(bench), waits: false)
            let daemon = disk.daemon
            try await bench.write("CREATE TABLE unrelated (x)", as: "Widget")
            let told = try await daemon.logged("event=stateUnavailable")
            #expect(told.lowercased().contains(word), "\(told)")
            try await daemon.sparing()
            #expect(daemon.log.count { $0.contains("event=stateUnavailable") } == 1)
            try await disk.shell("cd '\(disk.folder)' && \(remedy)")
            try await daemon.ready()
            try await eventually("an open store", state: { daemon.log.joined(separator: "\n") }) {
                try await status(bench)["stores"][0]["state"].text == "open"
            }
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }
}
