import FoundationEssentials
import Testing

extension ServiceTests {
    /// An application and the daemon, each a user of its own, share a store under the shipped unit.
    @Suite struct DeploymentTests {
        @Test func theOperatorsPath() async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            try await container.copy(
                "\(Package.root)/Tests/SystemdTests/operator-path", to: "/srv/operator-path")
            let outcome = try await container.run("/srv/operator-path")
            // For other tests on this unit.
            try await container.run("systemctl", "stop", "historyd.socket", unit)
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/srv/contacts")
            try await container.run("systemctl", "reset-failed", unit)
            try await container.run("umount", "/srv/contacts-view")
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
