import Subprocess

/// A program to run, and what came of it.
public struct Command: Sendable {
    /// A path, or a name that PATH finds.
    public var program: String
    public var arguments: [String]
    /// What is on standard input.
    public var input: String
    /// Changes to this process's environment; nil takes a variable away.
    public var environment: [String: String?]
    /// After this the program is killed, and `run` throws.
    public var limit: Duration

    public init(
        _ program: String, _ arguments: [String] = [], input: String = "", environment: [String: String?] = [:],
        limit: Duration = .seconds(120)
    ) {
        self.program = program
        self.arguments = arguments
        self.input = input
        self.environment = environment
        self.limit = limit
    }

    public enum Status: Hashable, Sendable {
        case exited(Int32)
        case killed(signal: Int32)

        init(_ status: TerminationStatus) {
            switch status {
            case .exited(let code): self = .exited(code)
            case .signaled(let signal): self = .killed(signal: signal)
            }
        }
    }

    public struct Outcome: Sendable, CustomStringConvertible {
        public let status: Status
        public let output: String
        public let errors: String

        /// The lines of standard output.
        public var lines: [String] { output.split(separator: "\n").map(String.init) }

        public var description: String { "\(status)\nstandard output:\n\(output)\nstandard error:\n\(errors)" }
    }

    public struct Failure: Error, CustomStringConvertible {
        public let description: String

        public init(description: String) { self.description = description }
    }

    /// Runs the program to its end, whatever its status.
    ///
    /// - Throws: `Failure` after the time limit, with which the program and its process group end.
    public func run() async throws -> Outcome {
        let outcome = try await withThrowingTaskGroup(of: Outcome?.self) { group in
            group.addTask { try await finish() }
            group.addTask {
                try await Task.sleep(for: limit)
                return nil
            }
            let first = try await group.next()
            group.cancelAll()
            return first ?? nil
        }
        guard let outcome else { throw Failure(description: "\(self) did not end within \(limit).") }
        return outcome
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

    private func finish() async throws -> Outcome {
        var options = PlatformOptions()
        options.processGroupID = 0
        options.teardownSequence = [
            .send(signal: .kill, toProcessGroup: true, allowedDurationToNextStep: .seconds(5))
        ]
        let environment = Dictionary(
            uniqueKeysWithValues: environment.map { (Environment.Key(stringLiteral: $0), $1) })
        // env becomes the program: it takes a path as well as a name.
        let result = try await Subprocess.run(
            .name("env"), arguments: Arguments([program] + arguments),
            environment: .inherit.updating(environment),
            platformOptions: options, input: .string(input), output: .bytes(limit: 256 << 20),
            error: .bytes(limit: 16 << 20))
        return Outcome(
            status: Status(result.terminationStatus),
            output: String(decoding: result.standardOutput, as: UTF8.self),
            errors: String(decoding: result.standardError, as: UTF8.self))
    }
}

extension Command: CustomStringConvertible {
    public var description: String { ([program] + arguments).joined(separator: " ") }
}
