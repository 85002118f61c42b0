import FoundationEssentials
import HistoryDaemon
import PersistentHistory
import Testing

extension ServiceTests {
    /// The daemon itself, installed as an operator would, on the store of the sample configuration.
    @Suite struct DaemonTests {
        static let store = "/srv/contacts/contacts.sqlite"
        static let replica = "/srv/contacts/main-view.sqlite"

        /// Installs everything again, with a plugin that writes each observed object's id to the log.
        func withDaemon(
            settings: String = "", _ body: (Container) async throws -> Void
        ) async throws {
            let container = try BootedSystemd.current()
            // A test that was cancelled leaves it running.
            try await container.run("systemctl", "stop", unit)
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            try container.write(Self.manifest, to: "/etc/historyd/plugins.d/tell.json")
            try container.write(Self.plugin, to: "/usr/lib/historyd/plugins/tell")
            try await container.succeed("chmod", "755", "/usr/lib/historyd/plugins/tell")
            try await container.succeed("install", "-d", "-o", "historyd", "-m", "755", "/srv/contacts")
            let schema = try String(
                contentsOfFile: "\(Package.root)/config/sample/contacts.sql", encoding: .utf8)
            try container.write(schema, to: "/srv/contacts.sql")
            try await container.succeed(
                "runuser", "-u", "historyd", "--", "sqlite3", Self.store, ".read /srv/contacts.sql")
            let dropIn = "[Service]\nReadWritePaths=/srv/contacts\nRestartSec=100ms\n\(settings)\n"
            try await container.with(dropIn: dropIn) { try await body(container) }
        }

        private static let manifest = """
            {"version": 1, "plugins": [{"name": "tell", "command": ["/usr/lib/historyd/plugins/tell"],
              "mode": "coprocess", "hooks": [{"name": "people", "kind": "observer", "entity": "person",
              "consumer": "MainApp"}]}]}
            """

        private static let plugin = """
            #!/usr/bin/python3
            import json, sys
            for line in sys.stdin:
                request = json.loads(line)
                for change in request["params"]["contexts"]:
                    print("told of", change["objectID"]["id"], file=sys.stderr, flush=True)
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": None}), flush=True)

            """

        @Test func itIsReadyOnlyWhenItWorks() async throws {
            try await withDaemon { container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                // Right after start what is written is heard of, the store is tracked, plugins run.
                try await container.addPeople(1...1)
                try await container.waitForJournal(after: mark, "--unit=\(unit)") { $0.message == "told of 1" }
                let told = try await container.journal(after: mark, "--unit=\(unit)", "_TRANSPORT=journal")
                #expect(told.contains { $0["MESSAGE_ID"] == MessageCode.starting.rawValue })
                #expect(told.contains { $0["MESSAGE_ID"] == MessageCode.ready.rawValue })
            }
        }

        @Test func statusIsOneLineInThePresentTense() async throws {
            try await withDaemon { container in
                try await container.succeed("systemctl", "start", unit)
                let status = try await container.property("StatusText")
                #expect(status.hasPrefix("Watching 1 store, 1 hook"))
                #expect(
                    try await container.succeed("systemctl", "status", unit).contains("Status: \"\(status)\""))
            }
        }

        /// `journalctl -u historyd HISTORYD_CONSUMER=…` finds a delivery.
        @Test func deliveriesAreFoundByTheirFields() async throws {
            try await withDaemon { container in
                try await container.succeed("systemctl", "start", unit)
                let mark = try await container.markJournal()
                try await container.addPeople(1...1)
                let delivery = try await container.waitForJournal(
                    after: mark, "--unit=\(unit)", "HISTORYD_CONSUMER=MainApp")
                #expect(delivery["HISTORYD_STORE"] == "contacts")
            }
        }

        @Test func stopAndRestartLoseNothing() async throws {
            try await withDaemon { container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                // Fewer in all than the lines of a plugin that are let into the journal at once.
                try await container.addPeople(1...60)
                try await container.succeed("systemctl", "restart", unit)
                try await container.addPeople(61...120)
                try await container.succeed("systemctl", "stop", unit)
                #expect(try await container.property("Result") == "success")
                #expect(try await container.property("ExecMainStatus") == "0")
                // This comes while it is down.
                try await container.addPeople(121...180)
                try await container.succeed("systemctl", "start", unit)
                try await container.expectDelivery(of: 1...180, after: mark)
            }
        }

        @Test func aKillLosesNothing() async throws {
            try await withDaemon { container in
                let mark = try await container.markJournal()
                try await container.succeed("systemctl", "start", unit)
                // Fewer in all than the lines of a plugin that are let into the journal at once.
                try await container.addPeople(1...120)
                let kill = try await container.markJournal()
                try await container.succeed("systemctl", "kill", "--signal=KILL", unit)
                try await container.addPeople(121...180)
                try await container.waitForJournal(
                    after: kill, "--unit=\(unit)", "MESSAGE_ID=\(MessageCode.ready.rawValue)")
                // A stop would set it back.
                #expect(try await container.property("NRestarts") == "1")
                try await container.expectDelivery(of: 1...180, after: mark)
            }
        }

        @Test func aWrongConfigurationEndsItForGood() async throws {
            try await withDaemon { container in
                try container.write(#"{"version": 1, "storrs": []}"#, to: "/etc/historyd/historyd.json")
                let mark = try await container.markJournal()
                #expect(try await container.run("systemctl", "start", unit).status != 0)
                #expect(try await container.property("ExecMainStatus") == "78")
                #expect(try await container.property("ActiveState") == "failed")
                #expect(try await container.property("NRestarts") == "0")
                let errors = try await container.journal(after: mark, "--unit=\(unit)", "PRIORITY=3")
                #expect(
                    errors.contains { $0.message.contains("historyd.json:1:") && $0.message.contains("storrs") }
                )
            }
        }

        @Test func theWatchdogIsFed() async throws {
            try await withDaemon(settings: "WatchdogSec=2s\nRestart=no") { container in
                try await container.succeed("systemctl", "start", unit)
                let pid = try await container.property("MainPID")
                // At half time each, so that these are more than two intervals.
                for _ in 0..<5 { try await container.waitForChange(of: "WatchdogTimestampMonotonic") }
                #expect(try await container.property("MainPID") == pid)
            }
        }
    }
}

extension Container {
    /// There is no event to wait for: systemd does not tell of each feeding.
    fileprivate func waitForChange(of name: String) async throws {
        let before = try await property(name)
        while try await property(name) == before {}
    }

    /// Adds people with these ids, each in a transaction of its own, as the author WidgetExtension.
    func addPeople(_ ids: ClosedRange<Int>) async throws {
        let inserts = ids.map {
            "INSERT INTO person (id, name, email) VALUES (\($0), 'P', 'p\($0)@example.org');"
        }
        try write(
            """
            .bail on
            .timeout 60000
            .load /usr/lib/historyd/libhistory
            SELECT history_author('WidgetExtension');
            \(inserts.joined(separator: "\n"))

            """, to: "/srv/people.sql")
        try await succeed(
            "runuser", "-u", "historyd", "--", "sqlite3", ServiceTests.DaemonTests.store,
            ".read /srv/people.sql")
    }

    /// Waits for the last id to be told of, then expects that all were, and that the replica has them.
    func expectDelivery(of ids: ClosedRange<Int>, after mark: JournalMark) async throws {
        try await waitForJournal(after: mark, "--unit=\(ServiceTests.unit)") {
            $0.message == "told of \(ids.upperBound)"
        }
        let told = try await journal(after: mark, "--unit=\(ServiceTests.unit)").compactMap {
            $0.message.hasPrefix("told of ") ? Int($0.message.dropFirst("told of ".count)) : nil
        }
        #expect(Set(told) == Set(ids), "every one at least once")
        // The observers come before the merge; a clean stop ends what has begun.
        try await succeed("systemctl", "stop", ServiceTests.unit)
        for database in [ServiceTests.DaemonTests.store, ServiceTests.DaemonTests.replica] {
            let count = try await succeed(
                "runuser", "-u", "historyd", "--", "sqlite3", database, "SELECT count(DISTINCT id) FROM person")
            #expect(count == "\(ids.count)", "\(database)")
        }
    }
}
