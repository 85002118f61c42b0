import Foundation
import Glibc
import TestSupport

/// A program beside the test, with its output in files.
final class RunningProgram: Sendable {
    typealias Ending = ChildProcess.Ending
    typealias Failure = ChildProcess.Failure

    private let child: ChildProcess
    let outputFile: String
    let errorFile: String
    /// Whether it was stopped at some time: then everything in it waited.
    private let isStopped = Locked(false)
    var wasStopped: Bool { isStopped.withLock { $0 } }

    var arguments: [String] { child.arguments }
    var processID: pid_t { child.processID }
    /// How it ended; nil while it runs.
    var ended: Ending? { child.ended }

    /// - Parameters:
    ///   - arguments: The program's path and its arguments.
    ///   - environment: The whole of it.
    ///   - files: The files that take the outputs are named after this path, with `.out` and `.err`.
    ///   - input: The file that is standard input.
    init(_ arguments: [String], environment: [String: String] = [:], files: String, input: String = "/dev/null")
        throws
    {
        outputFile = files + ".out"
        errorFile = files + ".err"
        var environment = environment
        environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
        environment["HOME"] = environment["HOME"] ?? "/nonexistent"
        // Which mutant it is to be, where these are tried.
        environment["HISTORYD_MUTANT"] = ProcessInfo.processInfo.environment["HISTORYD_MUTANT"]
        environment.merge(Sanitizers.options) { given, _ in given }
        child = try ChildProcess(
            arguments, environment: environment, input: .file(input), output: .file(outputFile),
            errors: .file(errorFile))
    }

    /// Blocks the thread until it has ended.
    func waitForEnd() -> Ending { child.waitForEnd() }

    func signal(_ signal: Int32) {
        if signal == SIGSTOP { isStopped.withLock { $0 = true } }
        child.signal(signal)
    }

    /// Kills what is left of its group, and waits for the leader.
    func destroy() async throws {
        child.signalGroup(SIGKILL)
        _ = try await end()
    }

    func end(within limit: Duration = .seconds(240)) async throws -> Ending {
        guard let ending = await child.end(within: limit) else {
            throw WaitedTooLong(description: "Waited \(limit) for the end of \(arguments). \(errors)")
        }
        return ending
    }

    var output: String { Self.text(outputFile) }
    var errors: String { Self.text(errorFile) }

    static func text(_ path: String) -> String { String(decoding: bytes(path), as: UTF8.self) }

    private static func bytes(_ path: String) -> Data { FileManager.default.contents(atPath: path) ?? Data() }

    /// Whether a file has so many whole lines. A debug build takes long to make strings of a large file, and this is asked
    /// again and again.
    static func hasLines(_ count: Int, _ path: String) -> Bool {
        bytes(path).withUnsafeBytes { ByteSearch.count("\n", in: $0) } >= count
    }

    /// Whether a text is in the errors, from a byte on.
    func hasError(_ text: String, from start: Int) -> Bool {
        Self.bytes(errorFile).dropFirst(start).withUnsafeBytes { ByteSearch.count(text, in: $0) } > 0
    }

    /// Waits until it ends, which must be with status 0, and gives its output.
    @discardableResult
    func succeed(within limit: Duration = .seconds(600)) async throws -> String {
        let ending = try await end(within: limit)
        guard ending == .exited(0) else {
            throw Failure(description: "\(arguments) ended: \(ending)\n\(output)\n\(errors)")
        }
        return output
    }
}

extension String {
    /// The lines that have come whole: a writer may be in the middle of the last one.
    var wholeLines: [String] {
        // By bytes: characters take a debug build twice as long.
        utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast()
            .map { String(Substring($0)) }
    }
}
