import FoundationEssentials
import Testing

/// Everything that needs a booted systemd, in one container, one test after the other.
@Suite(
    .enabled(if: Container.obstacle == nil, "\(Container.obstacle ?? "")"), .booted, .serialized,
    .timeLimit(.minutes(15)))
enum ServiceTests {
    static let unit = "historyd.service"
}

extension Container {
    /// Installs everything, with the programs that were built along with the tests.
    func install() async throws {
        try await SystemdTests.succeed(
            "make", "-C", Package.root, "install", "DESTDIR=\(root)", "PREFIX=/usr",
            "BINDIR=\(try await strippedPrograms())", "STRIP=true")
        try await succeed("systemd-sysusers")
        try await succeed("journalctl", "--update-catalog")
        try await succeed("systemctl", "daemon-reload")
    }

    /// What is installed, without the symbols of a debug build: to take them out is most of an installation's work,
    /// and is done once for a container.
    private func strippedPrograms() async throws -> String {
        let folder = "\(root)/usr/local/lib/historyd-stripped"
        if !FileManager.default.fileExists(atPath: folder) {
            let programs = ["historyd", "historyctl", "historyd-nats", "libhistory.so"]
            try await SystemdTests.succeed(
                ["install", "-D", "-m", "755", "-s", "-t", folder]
                    + programs.map { "\(Package.programs)/\($0)" })
            try await SystemdTests.succeed(
                ["cp", "-r"] + ["man", "completions"].map { "\(Package.programs)/\($0)" } + [folder])
        }
        return folder
    }

    /// Puts a drop-in over the unit for as long as the body lasts.
    func with(dropIn text: String, _ body: () async throws -> Void) async throws {
        try write(text, to: "/run/systemd/system/\(ServiceTests.unit).d/test.conf")
        try await succeed("systemctl", "daemon-reload")
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        try await run("systemctl", "stop", ServiceTests.unit)
        try await run("systemctl", "reset-failed", ServiceTests.unit)
        try remove("/run/systemd/system/\(ServiceTests.unit).d")
        try await succeed("systemctl", "daemon-reload")
        try result.get()
    }

    func property(_ name: String) async throws -> String {
        try await succeed("systemctl", "show", "--value", "--property=\(name)", ServiceTests.unit)
    }
}
