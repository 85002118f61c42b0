import Foundation
import HistoryDaemon
import Testing

extension ServiceTests {
    /// A mirror becomes the source, as the page Nats says it, on two booted machines.
    @Suite(
        .enabled(
            if: ProcessInfo.processInfo.environment["HISTORYD_MACHINES"] == "1", "make test-machines runs it"),
        .enabled(if: Package.isInstalled("nats-server"), "nats-server is not installed"))
    struct PromotionTests {
        /// A booted machine, on which both programs are installed.
        private struct Machine {
            let container: Container

            init(_ container: Container) async throws {
                self.container = container
                try await container.succeed(
                    "rm", "-rf", "/etc/historyd", "/var/lib/historyd", "/var/lib/historyd-nats")
                try await container.install()
                for (file, path) in [
                    ("Tests/SystemdTests/promote-path", "/srv/promote-path"),
                    ("Sources/PersistentHistory/Pipeline/Events/MessageCode.swift", "/srv/MessageCode.swift"),
                ] { try await container.copy("\(Package.root)/\(file)", to: path) }
            }

            @discardableResult
            func step(
                _ name: String, _ argument: String = "", sourceLocation: SourceLocation = #_sourceLocation
            ) async throws -> String {
                try await container.succeed("/srv/promote-path", name, argument, sourceLocation: sourceLocation)
            }

            func isLevel(with other: Machine) async throws {
                try await step("await", try await other.step("newest"))
                #expect(try await step("names") == other.step("names"))
            }
        }

        @Test("A mirror is promoted as planned, and after the loss of the source, which then comes back")
        func promotion() async throws {
            let container = try BootedSystemd.current()
            let one = try await Machine(container)
            try await one.step("server")
            try await one.step("source")
            try await one.step("insert", "first")
            try await withTemporaryFolder { disk in
                let options = [
                    "--network-namespace-path=/proc/\(container.leader)/ns/net",
                    "--bind=\(disk.path):/srv/contacts",
                ]
                try await Container.booted(options) { container in
                    let two = try await Machine(container)
                    try await two.step("follow")
                    try await two.isLevel(with: one)
                    // Planned: the old source's publisher still runs.
                    try await two.step("promote")
                    try await two.step("insert", "second")
                    try await one.step("refused")
                    try await one.step("aside")
                    try await one.isLevel(with: two)
                    // Its power fails before this one is published.
                    try await two.step("hang")
                    try await two.step("insert", "lost")
                }
                let said = try await one.step("promote")
                let token = try #require(said.firstMatch(of: /[0-9A-Fa-f-]{36}:[0-9]+/)?.output, "\(said)")
                try await one.step("insert", "third")
                try await Container.booted(options) { container in
                    let two = try await Machine(container)
                    try await two.step("publish")
                    try await two.step("refused")
                    let lost = try await two.step("lost", String(token)).split(separator: "\n")
                    #expect(lost.count == 1, "\(lost)")
                    try await two.step("aside")
                    try await two.isLevel(with: one)
                    #expect(try await two.step("names") == "first second third")
                }
            }
            // For other tests in this container.
            try await container.run("systemctl", "stop", "historyd-nats", unit, "nats-promote")
            try await container.run(
                "rm", "-rf", "/etc/systemd/system/\(unit).d", "/etc/systemd/system/historyd-nats.service.d",
                "/srv/contacts", "/srv/stream", "/etc/historyd")
            try await container.run("systemctl", "reset-failed", unit, "historyd-nats")
            try await container.succeed("systemctl", "daemon-reload")
        }
    }
}
