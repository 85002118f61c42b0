import FoundationEssentials
import HistoryDaemon
import Testing

extension ServiceTests {
    /// Prometheus and the shipped alert rules.
    @Suite(.enabled(if: Package.isInstalled("promtool"), "prometheus is not installed")) struct MonitoringTests
    {
        @Test func eachAlertFiresByItsCauseAndIsResolved() async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            try await container.copy(
                "\(Package.root)/Tests/SystemdTests/monitoring-path", to: "/srv/monitoring-path")
            let page = "PersistentHistory.docc/Monitoring.md"
            try await container.copy(
                "\(Package.root)/Sources/PersistentHistory/\(page)", to: "/srv/Monitoring.md")
            let outcome = try await container.run("/srv/monitoring-path")
            try await container.run("systemctl", "disable", "--now", unit, "historyd-metrics.socket")
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/srv/contacts", "/srv/view", "/srv/plugin")
            try await container.run("systemctl", "reset-failed", unit)
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
