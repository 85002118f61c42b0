import FoundationEssentials
import Testing

extension ServiceTests {
    /// Hooks in the sandbox of the shipped unit.
    @Suite struct HookTests {
        @Test func thePagesHooks() async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            try await container.copy(
                "\(Package.root)/Tests/SystemdTests/hook-path", to: "/usr/local/bin/hook-path")
            let outcome = try await container.run("/usr/local/bin/hook-path")
            // For other tests on this unit.
            try await container.run("systemctl", "stop", unit)
            try await container.run("rm", "-rf", "/etc/systemd/system/\(unit).d", "/srv/contacts", "/srv/hooks")
            try await container.run("systemctl", "reset-failed", unit)
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
