import FoundationEssentials
import HistoryDaemon
import PersistentHistory
import Testing

extension ServiceTests {
    /// The shipped unit with its whole sandbox, around a stand-in for the daemon (see `ServiceProbe`).
    @Suite struct ProbeTests {
        private func withProbe(
            _ arguments: String = "", settings: String = "", _ body: (Container) async throws -> Void
        ) async throws {
            let container = try BootedSystemd.current()
            try await container.install()
            try await container.copy("\(Package.programs)/ServiceProbe", to: "/usr/bin/service-probe")
            try await container.with(
                dropIn: "[Service]\nExecStart=\nExecStart=/usr/bin/service-probe \(arguments)\n\(settings)\n"
            ) { try await body(container) }
        }

        @Test func theUserIsMade() async throws {
            let container = try BootedSystemd.current()
            try await container.install()
            let user = try await container.succeed("getent", "passwd", "historyd").split(separator: ":")
            #expect(user.first == "historyd")
            #expect(user.last?.hasSuffix("nologin") == true)
        }

        @Test func itIsReadyOnlyWhenItSaysSo() async throws {
            try await withProbe("--hang", settings: "TimeoutStartSec=1s\nTimeoutStopSec=100ms\nRestart=no") {
                container in
                let outcome = try await container.run("systemctl", "start", unit)
                #expect(outcome.status != 0)
                #expect(try await container.property("Result") == "timeout")
            }
            try await withProbe { container in
                try await container.succeed("systemctl", "start", unit)
                #expect(try await container.property("ActiveState") == "active")
                let status = try await container.succeed("systemctl", "status", unit)
                #expect(status.contains("Status: \"Watching 1 store, 2 hooks; 0 deliveries pending\""))
            }
        }

        @Test func itRunsAsItsUserWithItsFolders() async throws {
            try await withProbe { container in
                try await container.succeed("systemctl", "start", unit)
                let pid = try await container.property("MainPID")
                #expect(
                    try await container.succeed("stat", "-c", "%U:%G", "/proc/\(pid)") == "historyd:historyd")
                let folders = try await container.succeed(
                    "stat", "-c", "%n %U %a", "/var/lib/historyd", "/run/historyd", "/etc/historyd")
                #expect(
                    folders == """
                        /var/lib/historyd historyd 700
                        /run/historyd historyd 755
                        /etc/historyd root 755
                        """)
            }
        }

        @Test func theJournalHasEveryField() async throws {
            try await withProbe { container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                let entry = try await container.waitForJournal(
                    after: mark, "--unit=\(unit)", "HISTORYD_CONSUMER=MainApp")
                let expected = [
                    "MESSAGE": "Every field. unknown key=\"two words\"", "PRIORITY": "4",
                    "SYSLOG_IDENTIFIER": "service-probe", "_TRANSPORT": "journal",
                    "HISTORYD_STORE": "contacts", "HISTORYD_CONSUMER": "MainApp",
                    "HISTORYD_AUTHOR": "WidgetExtension", "HISTORYD_CONTEXT": "view",
                    "HISTORYD_HOOK": "audit/new-people", "HISTORYD_PLUGIN": "audit",
                    "HISTORYD_DELIVERY": "d1", "HISTORYD_TOKEN": "t:1", "HISTORYD_ENTITY": "person",
                ]
                for (field, value) in expected { #expect(entry[field] == value, "\(field)") }
                // Nothing but what we log ourselves: libraries are quiet.
                try await container.waitForJournal(after: mark, "--unit=\(unit)") {
                    $0.message == "The pipeline answers."
                }
                #expect(try await container.journal(after: mark, "--unit=\(unit)", "_TRANSPORT=syslog").isEmpty)
                // The catalog explains it, with the names put in.
                let id = try #require(entry["MESSAGE_ID"])
                let explained = try await container.succeed(
                    "journalctl", "--catalog", "--unit=\(unit)", "MESSAGE_ID=\(id)", "--no-pager", "--lines=1")
                #expect(explained.contains("Subject: The hook audit/new-people has failed"))
            }
        }

        /// What was logged right before an exit is in the journal, too.
        @Test(arguments: [64, 78])
        func aStatusThatWillNotGetBetterIsNotTriedAgain(status: Int) async throws {
            try await withProbe("--status \(status)", settings: "RestartSec=0") { container in
                let mark = try await container.markJournal()
                #expect(try await container.run("systemctl", "start", unit).status != 0)
                #expect(try await container.property("ExecMainStatus") == "\(status)")
                #expect(try await container.property("ActiveState") == "failed")
                #expect(try await container.property("NRestarts") == "0")
                // Not by its unit: journald looks that up when it comes to the entry, and may be too late.
                let entries = try await container.journal(after: mark, "_TRANSPORT=journal")
                #expect(entries.contains { $0.message.hasPrefix("The probe was told to end.") })
            }
        }

        @Test func aKilledServiceIsStartedAgain() async throws {
            try await withProbe { container in
                try await container.succeed("systemctl", "start", unit)
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "kill", "--signal=KILL", unit)
                try await container.waitForJournal(
                    after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.ready.rawValue)")
                #expect(try await container.property("NRestarts") == "1")
            }
        }

        @Test func stopIsClean() async throws {
            try await withProbe { container in
                try await container.succeed("systemctl", "start", unit)
                try await container.succeed("systemctl", "stop", unit)
                #expect(try await container.property("Result") == "success")
                #expect(try await container.property("ExecMainStatus") == "0")
            }
        }

        /// A service that works is fed, one that merely lives is ended.
        @Test func theWatchdogTellsWorkingFromLiving() async throws {
            try await withProbe(settings: "WatchdogSec=400ms\nRestart=no") { container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                // Five feedings are more than two intervals.
                try await container.waitForJournal(after: mark, "--unit=\(unit)", count: 5) {
                    $0.message == "The pipeline answers."
                }
                #expect(try await container.property("ActiveState") == "active")
            }
            try await withProbe("--stuck", settings: "WatchdogSec=400ms\nRestart=no\nWatchdogSignal=KILL") {
                container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                try await container.waitForJournal(after: mark, "UNIT=\(unit)") {
                    $0.message.contains("Failed with result 'watchdog'")
                }
                let told = try await container.journal(
                    after: mark, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.pipelineStuck.rawValue)")
                #expect(told.count == 1, "told once, however often it was asked")
            }
        }
    }
}
