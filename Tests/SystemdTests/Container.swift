import Foundation
import Glibc
import TestSupport
import Testing

/// A booted systemd, on a throw-away copy of this machine.
struct Container: Sendable {
    /// The process id, seen from outside, of its process 1.
    let leader: Int

    /// Its root folder, seen from outside.
    var root: String { "/proc/\(leader)/root" }

    /// Why there cannot be one here, if so.
    static let obstacle: String? = {
        if geteuid() != 0 { return "only root can boot a container" }
        for program in ["systemd-nspawn", "unshare", "nsenter", "pgrep"] where !Package.isInstalled(program) {
            return "\(program) is not installed"
        }
        // CAP_SYS_ADMIN, without which nothing can be mounted, is bit 21.
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let effective = status.split(separator: "\n").first { $0.hasPrefix("CapEff:") }?.split(separator: "\t")
            .last
        guard let capabilities = effective.flatMap({ UInt64($0, radix: 16) }), capabilities >> 21 & 1 == 1
        else {
            return "root may not mount here"
        }
        return nil
    }()

    /// Runs a command inside.
    @discardableResult
    func run(_ command: String...) async throws -> Outcome {
        try await run(command)
    }

    private func run(_ command: [String]) async throws -> Outcome {
        try await SystemdTests.run(enter(command))
    }

    /// Runs a command inside that must succeed, and gives its output without the last line's end.
    @discardableResult
    func succeed(_ command: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws -> String
    {
        let outcome = try await run(command)
        try #require(
            outcome.status == 0, "\(command.joined(separator: " "))\n\(outcome.output)",
            sourceLocation: sourceLocation)
        return outcome.output.hasSuffix("\n") ? String(outcome.output.dropLast()) : outcome.output
    }

    func enter(_ command: [String]) -> [String] {
        ["nsenter", "--target", "\(leader)", "--all", "--"] + command
    }

    // MARK: Files

    func write(_ text: String, to path: String) throws {
        let file = URL(filePath: root + path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
    }

    func copy(_ source: String, to path: String) async throws {
        try await SystemdTests.succeed("install", "-D", "-m", "755", source, root + path)
    }

    /// Makes known what a debug build needs from the Swift toolchain, wherever that is.
    fileprivate func addSwiftRuntime() async throws {
        try write("/usr/local/lib/swift-runtime\n", to: "/etc/ld.so.conf.d/swift.conf")
        try await succeed("ldconfig")
    }

    func remove(_ path: String) throws {
        guard FileManager.default.fileExists(atPath: root + path) else { return }
        try FileManager.default.removeItem(atPath: root + path)
    }
}

/// Boots one container for all tests of the suite, and takes it down after the last.
struct BootedSystemd: SuiteTrait, TestScoping {
    @TaskLocal private static var container: Container?

    /// The container of the running test.
    static func current() throws -> Container { try #require(container) }

    func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @Sendable @concurrent () async throws -> Void
    ) async throws {
        try await Container.booted { container in
            try await Self.$container.withValue(container) { try await function() }
        }
    }
}

extension Container {
    /// Boots one for as long as the body lasts. Then it ends at once, as by a power failure.
    ///
    /// - Parameter options: Of systemd-nspawn.
    static func booted(_ options: [String] = [], _ body: (Container) async throws -> Void) async throws {
        let boot = try Conversation(
            [
                "unshare", "--mount", "--propagation", "private",
                "\(Package.root)/Tests/SystemdTests/boot-container",
            ]
                + swiftRuntimeMount() + options)
        let outcome: Result<Void, any Error>
        do {
            var lines = boot.lines.makeAsyncIterator()
            let leader = await lines.next()?.split(separator: " ").last.flatMap { Int($0) }
            let container = Container(leader: try #require(leader, "no container came up"))
            try await container.addSwiftRuntime()
            outcome = .success(try await body(container))
        } catch {
            outcome = .failure(error)
        }
        // With its standard input the container ends: at the latest with this process.
        boot.finish()
        let ending = await boot.program.end(within: .seconds(120))
        #expect(ending == .exited(0), "The container was not taken down properly.")
        try outcome.get()
    }

    /// Where this process has the Swift runtime from, if not linked into it: perhaps a file system of its own, which
    /// the container's copy does not hold.
    private static func swiftRuntimeMount() throws -> [String] {
        // The kernel gives it in parts, of which `String(contentsOfFile:)` takes the first.
        let maps = try FileHandle(forReadingFrom: URL(filePath: "/proc/self/maps")).readToEnd() ?? Data()
        guard
            let line = String(decoding: maps, as: UTF8.self).split(separator: "\n")
                .first(where: { $0.hasSuffix("/libswiftCore.so") }),
            let path = line.split(separator: " ").last
        else { return [] }
        let folder = URL(filePath: String(path)).deletingLastPathComponent().path
        return ["--bind-ro=\(folder):/usr/local/lib/swift-runtime"]
    }
}

extension Trait where Self == BootedSystemd {
    static var booted: Self { Self() }
}
