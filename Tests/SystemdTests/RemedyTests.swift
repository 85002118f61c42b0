import FoundationEssentials
import Testing

extension ServiceTests {
    /// What is printed to be done mends, in one round, and harms nothing.
    @Suite struct RemedyTests {
        /// - Parameter unit: The daemon, one of its instances, or a user's own.
        @Test(arguments: ["historyd", "historyd@blog", "user"]) func theMatrix(unit: String) async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await container.install()
            try await container.succeed("rm", "-rf", "/etc/historyd/plugins.d")
            try await container.copy(
                "\(Package.root)/Tests/SystemdTests/remedy-path", to: "/usr/local/bin/remedy-path")
            let outcome = try await container.run("/usr/local/bin/remedy-path", unit)
            // For other tests on this unit.
            try await container.run("systemctl", "stop", unit)
            try await container.run("rm", "-rf", "/etc/systemd/system/\(unit).service.d", "/etc/historyd/blog")
            try await container.run("systemctl", "reset-failed", unit)
            try await container.run("userdel", "--remove", "ada")
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
