import Foundation
import Glibc
import TestSupport

/// A file system of a few megabytes that a daemon alone sees, to be filled and made read-only.
///
/// Root heeds no file modes; a full file system stops root too.
struct SmallDisk: Sendable {
    let bench: Workbench
    let daemon: DaemonUnderTest
    let folder: String

    static let canMount = getuid() == 0 && unshares()
    static let missing = "needs root and mount namespaces"

    private static func unshares() -> Bool {
        guard
            let program = try? RunningProgram(
                ["/usr/bin/unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                files: "/tmp/historyd-test-unshare-\(getpid())")
        else { return false }
        let ending = program.waitForEnd()
        unlink(program.outputFile)
        unlink(program.errorFile)
        return ending == .exited(0)
    }

    /// Runs a shell command where the disk is seen, and gives its output.
    @discardableResult
    func shell(_ script: String) async throws -> String {
        try await bench.start(
            ["/usr/bin/nsenter", "-t", "\(daemon.processID)", "-m", "/bin/sh", "-c", script],
            "nsenter-\(UUID().uuidString)"
        ).succeed()
    }

    /// Leaves not one byte.
    func fill() async throws { try await shell("! dd if=/dev/zero of='\(folder)/filler' bs=4096 2>/dev/null") }

    func makeRoom() async throws { try await shell("rm '\(folder)/filler'") }

    func remount(_ options: String) async throws { try await shell("mount -o remount,\(options) '\(folder)'") }
}

extension Workbench {
    /// Starts the daemon with a small disk at a folder of the workbench, and waits until it is ready.
    ///
    /// - Parameter script: Run in the folder before the daemon starts.
    func startDaemon(
        withDisk name: String, bytes: Int = 2 << 20, before script: String = ":", _ arguments: [String] = [],
        waits: Bool = true
    ) async throws -> SmallDisk {
        let folder = path(name)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let mounting =
            "mount -t tmpfs -o size=\(bytes) none '\(folder)' && cd '\(folder)' && \(script) && exec \"$@\""
        let daemon = try launchDaemon(
            arguments, under: ["/usr/bin/unshare", "-m", "/bin/sh", "-c", mounting, "sh"])
        if waits { try await daemon.ready() }
        return SmallDisk(bench: self, daemon: daemon, folder: folder)
    }
}
