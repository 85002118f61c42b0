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

        /// - Parameter option: Whether the daemon runs as the store's owner, or as its own user.
        @Test(arguments: ["user", "shared"]) func fromCloneToAHook(option: String) async throws {
            let container = try BootedSystemd.current()
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd")
            try await container.install()
            try await container.copy(
                "\(Package.root)/Tests/SystemdTests/page-path", to: "/usr/local/bin/page-path")
            let page = "PersistentHistory.docc/FromCloneToHook.md"
            try await container.copy("\(Package.root)/Sources/PersistentHistory/\(page)", to: "/srv/page.md")
            let outcome = try await container.run("/usr/local/bin/page-path", "/srv/page.md", option)
            // For other tests, and the other option.
            for unit in [unit, "historyd@ada"] {
                try await container.run("systemctl", "disable", "--now", unit)
                try await container.run("systemctl", "reset-failed", unit)
            }
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/etc/systemd/system/historyd@ada.service.d",
                "/etc/historyd", "/var/lib/historyd-ada", "/usr/local/libexec/historyd", "/srv/page.md")
            try await container.run("userdel", "--remove", "ada")
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
