import Foundation
import Glibc
import TestSupport

/// A program beside the test, the leader of a process group of its own, with its output in files.
final class RunningProgram: Sendable {
    let arguments: [String]
    let processID: pid_t
    let outputFile: String
    let errorFile: String
    private let lock = NSLock()
    /// Whether it was stopped at some time: then everything in it waited.
    nonisolated(unsafe) private var isStopped = false
    var wasStopped: Bool { lock.withLock { isStopped } }
    nonisolated(unsafe) private var ending: Ending?

    enum Ending: Equatable, Sendable {
        case exited(Int32)
        case signaled(Int32)
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// - Parameters:
    ///   - arguments: The program's path and its arguments.
    ///   - environment: The whole of it.
    ///   - files: The files that take the outputs are named after this path, with `.out` and `.err`.
    ///   - input: The file that is standard input.
    init(_ arguments: [String], environment: [String: String] = [:], files: String, input: String = "/dev/null")
        throws
    {
        self.arguments = arguments
        outputFile = files + ".out"
        errorFile = files + ".err"

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        // Appended to: a program that is started again goes on in the same files.
        posix_spawn_file_actions_addopen(&actions, 1, outputFile, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        posix_spawn_file_actions_addopen(&actions, 2, errorFile, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var environment = environment
        environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
        environment["HOME"] = environment["HOME"] ?? "/nonexistent"
        environment.merge(Sanitizers.options) { given, _ in given }
        let program = arguments[0]
        var processID: pid_t = 0
        let number = Self.withCStrings(arguments) { arguments in
            Self.withCStrings(environment.map { "\($0)=\($1)" }) { environment in
                posix_spawn(&processID, program, &actions, &attributes, arguments, environment)
            }
        }
        guard number == 0 else {
            throw Failure(
                description: "\(arguments) could not be started: \(String(cString: strerror(number)))")
        }
        self.processID = processID
    }

    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        var pointers = strings.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return body(pointers)
    }

    /// How it ended; nil while it runs.
    var ended: Ending? {
        lock.withLock {
            if let ending { return ending }
            var status: Int32 = 0
            guard waitpid(processID, &status, WNOHANG) == processID else { return nil }
            ending = status & 0x7F == 0 ? .exited((status >> 8) & 0xFF) : .signaled(status & 0x7F)
            return ending
        }
    }

    func signal(_ signal: Int32) {
        if signal == SIGSTOP { lock.withLock { isStopped = true } }
        if ended == nil { kill(processID, signal) }
    }

    /// Kills what is left of its group, and waits for the leader.
    func destroy() async throws {
        if ended == nil { kill(-processID, SIGKILL) }
        _ = try await end()
    }

    func end(within limit: Duration = .seconds(60)) async throws -> Ending {
        try await eventually("the end of \(arguments)", within: limit, state: { self.errors }) { self.ended }
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
    func succeed(within limit: Duration = .seconds(120)) async throws -> String {
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
        var lines = split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        lines.removeLast()
        return lines
    }
}
