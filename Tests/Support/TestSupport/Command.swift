import Foundation
import Glibc

/// A program to run, and its outcome.
public struct Command: Sendable {
    /// A path, or a name that PATH finds.
    public var program: String
    public var arguments: [String]
    /// The content of standard input.
    public var input: String
    /// Changes to this process's environment; nil removes a variable.
    public var environment: [String: String?]
    /// After this the program is killed, and `run` throws.
    public var limit: Duration
    /// Whether standard error is part of the output, in order of arrival.
    public var errorsInOutput = false

    public init(
        _ program: String, _ arguments: [String] = [], input: String = "", environment: [String: String?] = [:],
        limit: Duration = .seconds(600)
    ) {
        self.program = program
        self.arguments = arguments
        self.input = input
        self.environment = environment
        self.limit = limit
    }

    public struct Outcome: Sendable, CustomStringConvertible {
        public let status: ChildProcess.Ending
        public let output: String
        public let errors: String

        /// The lines of standard output.
        public var lines: [String] { output.split(separator: "\n").map(String.init) }

        public var description: String { "\(status)\nstandard output:\n\(output)\nstandard error:\n\(errors)" }
    }

    public typealias Failure = ChildProcess.Failure

    /// Runs the program until it ends, with any status.
    ///
    /// - Throws: `Failure` after the time limit, when the program and its process group are killed.
    public func run() async throws -> Outcome {
        let folder = try TemporaryFolder()
        let (output, errors) = (folder.file("output"), folder.file(errorsInOutput ? "output" : "errors"))
        let child = try ChildProcess(
            [program] + arguments, environment: Self.inherited(environment),
            input: .file(input.isEmpty ? "/dev/null" : folder.write("input", input)), output: .file(output),
            errors: .file(errors))
        guard let status = await child.end(within: limit) else {
            child.signalGroup(SIGKILL)
            throw Failure(description: "\(self) did not end within \(limit), or before the test was cancelled.")
        }
        return Outcome(
            status: status, output: try Self.text(output), errors: errorsInOutput ? "" : try Self.text(errors))
    }

    /// Runs the program, which must succeed.
    ///
    /// - Returns: Its standard output.
    @discardableResult
    public func succeed() async throws -> String {
        let outcome = try await run()
        guard outcome.status == .exited(0) else { throw Failure(description: "\(self): \(outcome)") }
        return outcome.output
    }

    private static func text(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
    }

    /// This process's environment with changes.
    static func inherited(_ changes: [String: String?]) -> [String: String] {
        ProcessInfo.processInfo.environment.merging(changes.compactMapValues { $0 }) { $1 }
            .filter { changes[$0.key] != .some(nil) }
    }
}

extension Command: CustomStringConvertible {
    public var description: String { ([program] + arguments).joined(separator: " ") }
}
