import FoundationEssentials
import HistoryDaemon
import PersistentHistory
import Testing

extension ServiceTests {
    /// What an operator finds in the morning: a disk that was full over night, a hook that hangs at a stop.
    @Suite struct TroubleTests {
        private static let state = "/var/lib/historyd"

        /// A small disk for the state, of the daemon's user.
        private func withSmallDisk(_ container: Container, _ body: () async throws -> Void) async throws {
            try await container.succeed("install", "-d", "-o", "historyd", "-m", "700", Self.state)
            try await container.succeed(
                "mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "tmpfs", Self.state)
            try await container.succeed("chown", "historyd:historyd", Self.state)
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            try await container.run("systemctl", "stop", unit)
            try await container.succeed("umount", "--lazy", Self.state)
            try result.get()
        }

        private func fill(_ container: Container) async throws {
            try await container.succeed(
                "sh", "-c", "! dd if=/dev/zero of=\(Self.state)/filler bs=512 2>/dev/null")
        }

        /// Ends the daemon, however often it has been restarted, and waits for the next one.
        private func kill(_ container: Container) async throws {
            let before = try await container.property("MainPID")
            try await container.succeed("systemctl", "kill", "--signal=KILL", unit)
            while true {
                try #require(try await container.property("ActiveState") != "failed")
                if ![before, "0"].contains(try await container.property("MainPID")) { return }
            }
        }

        @Test func aFullDiskOutlastsAnyLimitOfRestarts() async throws {
            // More than systemd allows by itself: 5 in 10 s.
            let restarts = 12
            try await DaemonTests().withDaemon { container in
                try await withSmallDisk(container) {
                    let mark = try await container.markJournal()
                    try await container.succeed("systemctl", "start", unit)
                    try await container.addPeople(1...10)
                    try await container.waitForJournal(after: mark, "--unit=\(unit)") {
                        $0.message == "told of 10"
                    }

                    // It fills while the daemon runs, which waits.
                    try await fill(container)
                    try await container.addPeople(11...100)
                    let told = try await container.waitForJournal(
                        after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.stateUnavailable.rawValue)")
                    #expect(told.message.contains("full"))
                    #expect(try await container.property("ActiveState") == "active")
                    #expect(try await container.property("NRestarts") == "0")

                    // It fails while the disk is full, again and again.
                    for _ in 1...restarts { try await kill(container) }
                    #expect(try await container.property("NRestarts") == "\(restarts)")
                    let last = try await container.markJournal()

                    try await container.succeed("rm", "\(Self.state)/filler")
                    try await container.addPeople(101...110)
                    try await container.waitForJournal(after: last, "--unit=\(unit)") {
                        $0.message == "told of 110"
                    }
                    #expect(try await container.property("ActiveState") == "active")
                    #expect(try await container.property("NRestarts") == "\(restarts)")
                    try await container.expectDelivery(of: 1...110, after: mark)
                }
            }
        }

        /// The service's own mount of the folder stays read-only, also when the system's no longer is.
        @Test func aReadOnlyStateFolderRecovers() async throws {
            try await DaemonTests().withDaemon { container in
                try await container.succeed("install", "-d", "-o", "historyd", "-m", "700", Self.state)
                try await container.succeed("mount", "--bind", Self.state, Self.state)
                let result: Result<Void, any Error>
                do {
                    // The lock is there from an earlier run.
                    try await container.succeed("systemctl", "start", unit)
                    try await container.succeed("systemctl", "stop", unit)
                    try await container.succeed("mount", "-o", "remount,bind,ro", Self.state)
                    let mark = try await container.markJournal()
                    try await container.succeed("systemctl", "start", "--no-block", unit)
                    let told = try await container.waitForJournal(
                        after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.stateUnavailable.rawValue)")
                    #expect(told.message.contains("Read-only file system"), "\(told.message)")
                    try await container.succeed("mount", "-o", "remount,bind,rw", Self.state)
                    try await container.waitForJournal(
                        after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.ready.rawValue)")
                    try await container.addPeople(1...3)
                    try await container.waitForJournal(after: mark, "--unit=\(unit)") {
                        $0.message == "told of 3"
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                try await container.run("systemctl", "stop", unit)
                try await container.succeed("umount", "--lazy", Self.state)
                try result.get()
            }
        }

        @Test func aStopLongerThanTheUnitAllowsIsClean() async throws {
            try await DaemonTests().withDaemon(settings: "TimeoutStopSec=1s") { container in
                try container.write(
                    #"{"version": 1, "stopTimeout": "3s"}"#, to: "/etc/historyd/conf.d/stop.json")
                try container.write(Self.hanging, to: "/usr/lib/historyd/plugins/tell")
                try container.write("", to: "/srv/contacts/hang")
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                try await container.addPeople(1...1)
                try await container.waitForJournal(after: mark, "--unit=\(unit)") { $0.message == "hangs" }
                try await container.succeed("systemctl", "stop", unit)
                #expect(try await container.property("Result") == "success")
                #expect(try await container.property("ExecMainStatus") == "0")
                let log = try await container.journal(after: mark, "--unit=\(unit)").map(\.message)
                #expect(log.contains("historyd has stopped."), "\(log)")
                #expect(!log.contains { $0.contains("timed out") || $0.contains("SIGKILL") }, "\(log)")

                // The call was broken off, and is made again.
                try container.remove("/srv/contacts/hang")
                let again = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                try await container.waitForJournal(after: again, "--unit=\(unit)") {
                    $0.message == "told of 1"
                }
                try container.remove("/etc/historyd/conf.d")
            }
        }

        private static let hanging = """
            #!/usr/bin/python3
            import json, os, sys, time
            for line in sys.stdin:
                request = json.loads(line)
                if os.path.exists("/srv/contacts/hang"): print("hangs", file=sys.stderr, flush=True)
                while os.path.exists("/srv/contacts/hang"): time.sleep(0.05)
                for change in request["params"]["contexts"]:
                    print("told of", change["objectID"]["id"], file=sys.stderr, flush=True)
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": None}), flush=True)

            """
    }
}
