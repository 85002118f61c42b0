import Foundation
import Glibc

/// A program that receives lines, and whose output lines are read as they arrive.
public final class Conversation: Sendable {
    public let program: ChildProcess
    /// The lines of its standard output, until that is closed.
    public let lines: AsyncStream<String>
    /// Both directions: writing without a reader is an error, and not a signal as with a pipe.
    private let socket: Int32

    /// - Parameter errors: Where its standard error goes.
    public init(_ arguments: [String], errors: ChildProcess.Stream = .inherited) throws {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw ChildProcess.Failure(description: "No pair of sockets: \(String(cString: strerror(errno)))")
        }
        socket = ends[0]
        defer { close(ends[1]) }
        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        self.lines = lines
        do {
            program = try ChildProcess(
                arguments, environment: ProcessInfo.processInfo.environment, input: .descriptor(ends[1]),
                output: .descriptor(ends[1]), errors: errors)
        } catch {
            close(ends[0])
            throw error
        }
        let reading = fcntl(socket, F_DUPFD_CLOEXEC, 3)
        Thread.detachNewThread { Self.read(reading, into: continuation) }
    }

    deinit { close(socket) }

    private static func read(_ descriptor: Int32, into lines: AsyncStream<String>.Continuation) {
        defer { lines.finish() }
        guard let file = fdopen(descriptor, "r") else { return }
        defer { fclose(file) }
        var line: UnsafeMutablePointer<CChar>?
        var size = 0
        defer { free(line) }
        while getline(&line, &size, file) > 0, let line {
            lines.yield(String(cString: line).trimmingCharacters(in: .newlines))
        }
    }

    public func send(_ line: String) throws {
        var rest = Array((line + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                let reason = String(cString: strerror(errno))
                throw ChildProcess.Failure(description: "\(program.arguments) was sent a line: \(reason)")
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Closes its standard input.
    public func finish() { shutdown(socket, Int32(SHUT_WR)) }
}
