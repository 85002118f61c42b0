import Foundation
public import Glibc
import PersistentHistory

/// A child process of the test, the leader of its own process group.
public final class ChildProcess: Sendable {
    public let arguments: [String]
    public let processID: pid_t
    private let ending = Locked<Ending?>(nil)
    private let hasEnded = OneShotEvent()

    public enum Ending: Hashable, Sendable {
        case exited(Int32)
        case killed(signal: Int32)
    }

    /// A standard descriptor of the program.
    public enum Stream: Sendable {
        /// Output is appended: a restarted program continues the same file.
        case file(String)
        case descriptor(Int32)
        /// Inherited from the tests.
        case inherited
    }

    public struct Failure: Error, CustomStringConvertible {
        public let description: String

        public init(description: String) { self.description = description }
    }

    /// - Parameters:
    ///   - arguments: The program, by its path or a name that PATH finds, and its arguments.
    ///   - environment: The complete environment.
    public init(
        _ arguments: [String], environment: [String: String], input: Stream, output: Stream, errors: Stream
    ) throws {
        self.arguments = arguments
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, stream) in [input, output, errors].enumerated() {
            let number = Int32(number)
            switch stream {
            case .file(let path):
                let flags = number == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND
                posix_spawn_file_actions_addopen(&actions, number, path, flags, 0o644)
            case .descriptor(let descriptor): posix_spawn_file_actions_adddup2(&actions, descriptor, number)
            case .inherited: break
            }
        }
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

        let program = arguments[0]
        var processID: pid_t = 0
        let number = Self.withCStrings(arguments) { arguments in
            Self.withCStrings(environment.map { "\($0)=\($1)" }) { environment in
                posix_spawnp(&processID, program, &actions, &attributes, arguments, environment)
            }
        }
        guard number == 0 else {
            let reason = String(cString: strerror(number))
            throw Failure(description: "\(arguments) could not be started: \(reason)")
        }
        self.processID = processID
        Thread.detachNewThread { self.waitForEnd() }
    }

    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        var pointers = strings.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return body(pointers)
    }

    /// Blocks the thread until it has ended.
    @discardableResult
    public func waitForEnd() -> Ending {
        var information = siginfo_t()
        while waitid(P_PID, id_t(processID), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        // The kernel does not reuse its id before it is reaped, which happens once, and never while a signal is
        // sent.
        let ended = ending.withLock { ending in
            if let ending { return ending }
            var status: Int32 = 0
            while waitpid(processID, &status, 0) < 0, errno == EINTR {}
            let ended: Ending =
                status & 0x7F == 0 ? .exited((status >> 8) & 0xFF) : .killed(signal: status & 0x7F)
            ending = ended
            return ended
        }
        hasEnded.signal()
        return ended
    }

    /// How it ended; nil while it runs.
    public var ended: Ending? { ending.withLock { $0 } }

    /// Sends a signal to the program, which may have ended.
    public func signal(_ signal: Int32) { send(signal, to: processID) }

    /// Sends a signal to the program, unless it has ended, and to its process group.
    public func signalGroup(_ signal: Int32) { send(signal, to: -processID) }

    private func send(_ signal: Int32, to target: pid_t) {
        ending.withLock { if $0 == nil { _ = kill(target, signal) } }
    }

    /// Waits for its end.
    ///
    /// - Returns: Nil after the limit, or if the task is cancelled.
    public func end(within limit: Duration) async -> Ending? {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.hasEnded.wait() }
            // Only the end of the group ends the sleep early.
            group.addTask { try? await Task.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
        return ended
    }
}
