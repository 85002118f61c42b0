import FoundationEssentials
import Glibc

/// A folder with the configuration and state of a daemon that processes everything and exits.
struct DaemonHome {
    let folder: String
    /// The program to run.
    var historyd: String
    private let configuration: String

    init(_ workplace: Workplace, _ setup: DaemonSetup, in folder: String, plugin: [String] = []) throws {
        self.folder = folder
        historyd = workplace.historyd
        configuration = try setup.write(to: folder, command: plugin)
    }

    /// The cost of `historyd --once`.
    struct Cost {
        /// Elapsed and processor time, in seconds.
        let seconds: Double
        let processor: Double
    }

    /// - Parameter tool: a command that runs the daemon's.
    @discardableResult
    func runOnce(under tool: [String] = [], environment: [String] = []) throws -> Cost {
        let log = try FileBytes.create("\(folder)/log")
        defer { close(log) }
        let start = Clock.now
        let child = try Child(
            tool + [historyd, "--config", configuration, "--once"],
            environment: ["STATE_DIRECTORY=\(folder)/state", "RUNTIME_DIRECTORY=\(folder)"] + environment,
            errors: log)
        let end = child.waitForEnd()
        guard end.status == 0 else {
            throw BenchError(
                "The daemon could not deliver everything:\n\(FileBytes.text(of: "\(folder)/log"))")
        }
        return Cost(seconds: Double(Clock.now - start) / 1e9, processor: end.processor)
    }

    /// Copies the state and other files of the folder, to restore them later.
    func keep(_ files: [String]) throws {
        try FileManager.default.createDirectory(atPath: "\(folder)/kept", withIntermediateDirectories: true)
        try copy(files, from: folder, to: "\(folder)/kept")
    }

    func comeBack(_ files: [String]) throws { try copy(files, from: "\(folder)/kept", to: folder) }

    private func copy(_ files: [String], from: String, to: String) throws {
        let manager = FileManager.default
        // A database that no process has open has no other files (https://www.sqlite.org/wal.html).
        for file in ["state"] + files {
            if manager.fileExists(atPath: "\(to)/\(file)") { try manager.removeItem(atPath: "\(to)/\(file)") }
            try manager.copyItem(atPath: "\(from)/\(file)", toPath: "\(to)/\(file)")
        }
    }
}
