import HistoryDaemon
import PersistentHistory
import Testing

extension ServiceTests {
    /// What an operator does to the installed daemon: `systemctl reload`, and historyctl as root.
    @Suite struct ControlTests {
        private func withRunningDaemon(_ body: (Container) async throws -> Void) async throws {
            try await DaemonTests().withDaemon { container in
                try await container.succeed("systemctl", "start", unit)
                try await body(container)
            }
        }

        @Test func reloadReturnsWhenTheNewConfigurationIsInForce() async throws {
            try await withRunningDaemon { container in
                let pid = try await container.property("MainPID")
                let mark = try await container.markJournal()
                try container.write(
                    #"{"version": 1, "plugins": []}"#, to: "/etc/historyd/plugins.d/none.json")
                try await container.succeed("rm", "/etc/historyd/plugins.d/tell.json")
                try await container.succeed("systemctl", "reload", unit)
                #expect(try await container.property("StatusText") == "Watching 1 store, 0 hooks")
                #expect(try await container.property("MainPID") == pid)
                try await container.waitForJournal(
                    after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.reloaded.rawValue)")
            }
        }

        @Test func aRefusedReloadFailsAndSaysWhy() async throws {
            try await withRunningDaemon { container in
                let pid = try await container.property("MainPID")
                let mark = try await container.markJournal()
                try container.write(#"{"version": 1, "storrs": []}"#, to: "/etc/historyd/historyd.json")
                #expect(try await container.run("systemctl", "reload", unit).status != 0)
                #expect(try await container.property("ActiveState") == "active")
                #expect(try await container.property("MainPID") == pid)
                let status = try await container.property("StatusText")
                #expect(
                    status.hasPrefix("Watching 1 store, 1 hook; reload refused: /etc/historyd/historyd.json:1:")
                )
                // The daemon's own line, and what historyctl told the service manager.
                try await container.waitForJournal(
                    after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.reloadRefused.rawValue)")
                try await container.waitForJournal(after: mark, "--unit=\(unit)", "_TRANSPORT=stdout") {
                    $0.message.hasPrefix("historyctl: /etc/historyd/historyd.json:1:")
                }
            }
        }

        /// The daemon's user namespace knows root and its own user; everybody else is nobody there.
        @Test func rootSteersAndOthersMayNotEvenConnect() async throws {
            try await withRunningDaemon { container in
                #expect(
                    try await container.succeed("stat", "-c", "%a %U %G", "/run/historyd/control.sock")
                        == "660 historyd historyd")
                try await container.succeed("historyctl", "pause")
                #expect(
                    try await container.property("StatusText") == "Watching 1 store, 1 hook; 1 store paused")
                try await container.succeed("runuser", "-u", "historyd", "--", "historyctl", "resume")
                let nobody = try await container.run("runuser", "-u", "nobody", "--", "historyctl", "status")
                #expect(nobody.status == 77)
                // What it prints lets this user query the daemon.
                let command = try #require(nobody.output.firstMatch(of: /As root: (usermod .*)/)?.1)
                try await container.succeed("sh", "-c", String(command))
                let again = try await container.run("runuser", "-u", "nobody", "--", "historyctl", "status")
                #expect(again.status == 0, "\(again)")
                try await container.succeed("gpasswd", "--delete", "nobody", "historyd")
                // A member of the group may ask, and not change anything.
                func asMember(_ verb: String) async throws -> Int32? {
                    try await container.run(
                        "setpriv", "--reuid=nobody", "--regid=historyd", "--clear-groups", "historyctl", verb
                    ).status
                }
                #expect(try await asMember("status") == 0)
                #expect(try await asMember("pause") == 77)
                try await container.succeed("systemctl", "stop", unit)
                #expect(try await container.run("historyctl", "status").status == 69)
            }
        }
    }
}
