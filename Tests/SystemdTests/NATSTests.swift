import FoundationEssentials
import HistoryDaemon
import Testing

extension ServiceTests {
    /// historyd-nats under its unit, at a real nats-server.
    @Suite(.enabled(if: Package.isInstalled("nats-server"), "nats-server is not installed")) struct NATSTests {
        @Test func thePathOfItsOperator() async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            for (file, path) in [
                ("Tests/SystemdTests/nats-path", "/srv/nats-path"),
                ("Tests/Tools/NATS/credentials.py", "/srv/credentials.py"),
                ("Sources/PersistentHistory/Pipeline/Events/MessageCode.swift", "/srv/MessageCode.swift"),
            ] { try await container.copy("\(Package.root)/\(file)", to: path) }
            let outcome = try await container.run("/srv/nats-path", "/srv/credentials.py")
            // For other tests in this container.
            try await container.run("systemctl", "stop", "historyd-nats", "nats-test", unit)
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/etc/systemd/system/historyd-nats.service.d",
                "/srv/contacts", "/srv/mirror", "/srv/nats")
            try await container.run("systemctl", "reset-failed", unit, "historyd-nats")
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
