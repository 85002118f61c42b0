import FoundationEssentials
import Glibc

/// Programs that are measured or used if they are installed.
enum Tool {
    /// Why something is not measured.
    struct Missing: Error {
        let reason: String
    }

    /// - Parameter package: Debian's, which has it.
    /// - Throws: `Missing`.
    static func find(_ name: String, package: String, in folders: [String] = usual) throws -> String {
        let found = folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let found else {
            throw Missing(reason: "\(name) is not installed (apt-get install \(package)).")
        }
        return found
    }

    /// The first line of what a program prints with these arguments; nil if it cannot be asked.
    static func answer(_ command: String...) throws -> String? {
        guard let file = try? find(command[0], package: command[0]) else { return nil }
        let ends = try Child.pipe()
        let child = try Child([file] + command.dropFirst(), output: ends.writing)
        close(ends.writing)
        defer { close(ends.reading) }
        let text = FileBytes.text(from: ends.reading)
        guard child.waitForEnd().status == 0 else { return nil }
        return text.split(separator: "\n").first.map(String.init)
    }

    static let usual = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
}
