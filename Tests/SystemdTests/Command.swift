import FoundationEssentials
import TestSupport
import Testing

/// What a command left behind.
struct Outcome: Sendable {
    /// The exit status, or minus the signal's number.
    let status: Int32
    /// Standard output and standard error, as they came.
    let output: String
}

/// Runs a command of this machine, found in `$PATH`.
@discardableResult
func run(_ command: String...) async throws -> Outcome {
    try await run(command)
}

func run(_ command: [String]) async throws -> Outcome {
    var program = Command(
        command[0], Array(command.dropFirst()),
        // Nothing that asks the terminal, or the language of whoever runs the tests.
        environment: ["LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "cat", "SYSTEMD_COLORS": "0"], limit: .seconds(900))
    program.errorsInOutput = true
    let outcome = try await program.run()
    let status: Int32 =
        switch outcome.status {
        case .exited(let code): code
        case .killed(let signal): -signal
        }
    return Outcome(status: status, output: outcome.output)
}

/// Runs a command that must succeed, and gives its output.
@discardableResult
func succeed(_ command: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws -> String {
    try await succeed(command, sourceLocation: sourceLocation)
}

@discardableResult
func succeed(_ command: [String], sourceLocation: SourceLocation = #_sourceLocation) async throws -> String {
    let outcome = try await run(command)
    try #require(
        outcome.status == 0, "\(command.joined(separator: " "))\n\(outcome.output)",
        sourceLocation: sourceLocation)
    return outcome.output
}

/// A folder that is removed afterwards.
func withTemporaryFolder<R>(_ body: (URL) async throws -> R) async throws -> R {
    let folder = FileManager.default.temporaryDirectory.appending(path: "historyd-tests-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    do {
        let result = try await body(folder)
        try FileManager.default.removeItem(at: folder)
        return result
    } catch {
        try FileManager.default.removeItem(at: folder)
        throw error
    }
}

/// Where the tests come from.
enum Package {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    /// The folder of the programs that were built along with the tests.
    static let programs: String = {
        let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return program.map { URL(filePath: $0).deletingLastPathComponent().path } ?? ""
    }()

    static func isInstalled(_ program: String) -> Bool {
        ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"].contains {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
        }
    }
}
