import FoundationEssentials
import Testing

extension ServiceTests {
    /// The Debian packages, built of the programs that were built along with the tests.
    /// It takes minutes: `make test-packages`.
    @Suite(
        .enabled(if: Package.isInstalled("dpkg-shlibdeps"), "dpkg-dev is not installed"),
        .enabled(
            if: ProcessInfo.processInfo.environment["HISTORYD_PACKAGES"] == "1", "make test-packages runs it")
    ) struct PackageTests {
        @Test func theLifeOfThePackages() async throws {
            let container = try BootedSystemd.current()
            try await container.run("systemctl", "stop", unit)
            // What other tests have installed beside.
            try await SystemdTests.succeed(
                "make", "-C", Package.root, "uninstall", "DESTDIR=\(container.root)", "PREFIX=/usr")
            try await container.succeed("rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/srv/contacts")
            try await withTemporaryFolder { folder in
                for (name, version) in [("old", "0.1.0"), ("new", "0.2.0")] {
                    try await SystemdTests.succeed(
                        "python3", "\(Package.root)/config/packaging/make-deb", "--fast", Package.programs,
                        version,
                        folder.appending(path: name).path)
                    try await SystemdTests.succeed(
                        "cp", "-r", folder.appending(path: name).path, "\(container.root)/srv/\(name)")
                }
            }
            try await container.copy("\(Package.root)/Tests/SystemdTests/package-path", to: "/srv/package-path")
            let outcome = try await container.run("/srv/package-path")
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/etc/systemd/system/historyd@.service.d",
                "/srv/contacts", "/srv/old", "/srv/new")
            try await container.succeed("systemctl", "daemon-reload")
            print(outcome.output)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }
}
