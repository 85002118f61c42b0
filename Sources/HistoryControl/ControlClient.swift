import Glibc
import HistoryBase
import NIOCore
import NIOHTTP1
import NIOPosix

/// A client of a daemon's control socket: one connection for each request.
package struct ControlClient: Sendable {
    package let socketPath: String

    /// How long a whole answer may take; nil for as long as it takes.
    package var timeout: Duration?

    /// The daemon's name in messages.
    private let program: String

    package init(socketPath: String, timeout: Duration? = nil, program: String = "historyd") {
        self.socketPath = socketPath
        self.timeout = timeout
        self.program = program
    }

    /// The daemon exists, but has not answered in time.
    package struct Unanswered: Error, CustomStringConvertible, Sendable {
        package let description: String
    }

    /// There is no daemon at the socket, or it disconnected before it had answered.
    package struct Unreachable: Error, CustomStringConvertible, Sendable {
        package let description: String
        /// Whether the socket exists, but this user may not use it.
        package let isForbidden: Bool
    }

    /// Sends a command, and passes on the answer's body piece by piece as it arrives.
    ///
    /// - Throws: `ControlError` if the daemon refuses, `Unreachable` if there is none, and what `take` throws.
    package func send(
        _ command: ControlCommand, body: [UInt8] = [], take: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        try await send(command, body, connected: {}, take)
    }

    /// - Parameter connected: Called once there is a connection.
    private func send(
        _ command: ControlCommand, _ body: [UInt8], connected: () -> Void,
        _ take: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        do {
            let connection = try await connect()
            connected()
            try await send(command, body, over: connection, take)
        } catch is HTTPParserError {
            throw cutOff
        } catch is ChannelError {
            throw cutOff
        } catch is IOError {
            throw cutOff
        }
    }

    /// Sends a command and returns the whole answer.
    ///
    /// - Throws: As above; `Unanswered` after the timeout.
    package func send(_ command: ControlCommand, body: [UInt8] = []) async throws -> [UInt8] {
        let isConnected = Locked(false)
        let answer = try await within(timeout) {
            var answer: [UInt8] = []
            try await send(command, body, connected: { isConnected.withLock { $0 = true } }) { answer += $0 }
            return answer
        }
        if let answer { return answer }
        // Without a connection, it is still waiting for a free slot.
        guard isConnected.withLock(\.self) else { throw unreached(EAGAIN) }
        let request = "\(command.method.rawValue) \(command.target) at \"\(socketPath)\""
        throw Unanswered(
            description:
                "\(program) has not answered \(request) within \(timeout?.text ?? "any time")\(command.method == .get ? "." : "; it may still carry out the request.")"
        )
    }

    private typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    private func connect() async throws -> Connection {
        let descriptor: Int32
        do throws(SystemError) {
            descriptor = try await connected()
        } catch {
            throw unreached(error.number)
        }
        return try await ClientBootstrap(group: ControlThread.group).withConnectedSocket(descriptor) {
            channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHTTPClientHandlers()
                return try Connection(wrappingChannelSynchronously: channel)
            }
        }
    }

    /// How long one attempt waits for a free slot: a cancelled caller leaves a thread blocked for no longer.
    private static let wait: Duration = .milliseconds(250)

    /// Connects. If the socket's backlog is full, it waits for as long as the answer may take.
    private func connected() async throws(SystemError) -> Int32 {
        let end = ContinuousClock.now + (timeout ?? .seconds(30))
        var wait = Duration.zero
        while true {
            do throws(SystemError) {
                // NIO accepts no path longer than 103 bytes.
                if wait == .zero { return try UnixAddress.connect(to: socketPath) }
                return try await onPool { [socketPath, wait] () throws(SystemError) in
                    try UnixAddress.connect(to: socketPath, timeout: wait)
                }
            } catch {
                guard error.number == EAGAIN, .now < end, !Task.isCancelled else { throw error }
                wait = Self.wait
            }
        }
    }

    /// How this user can join the group whose members may query the daemon, if there is one.
    private var membership: String? {
        var status = stat()
        guard stat(socketPath, &status) == 0, status.st_mode & 0o060 == 0o060, status.st_gid != 0 else {
            return nil
        }
        let (group, user) = (Accounts.name(ofGroup: status.st_gid), Accounts.name(ofUser: geteuid()))
        return
            "Members of its group may query the daemon, from their next login on. As root: usermod -aG \(group) \(user)"
    }

    private func unreached(_ number: Int32) -> any Error {
        switch number {
        case EACCES, EPERM:
            Unreachable(
                description:
                    "The control socket \"\(socketPath)\" may not be used by this user. \(membership ?? "Its mode and group say which users may.")",
                isForbidden: true)
        case EAGAIN:
            Unanswered(
                description:
                    "\(program) accepts no connections at \"\(socketPath)\": as many as may wait are waiting.")
        case ENAMETOOLONG:
            Unreachable(
                description: "The path \"\(socketPath)\" is too long for a socket.", isForbidden: false)
        default:
            Unreachable(
                description:
                    "\(program) is not running: no process listens at \"\(socketPath)\". Start it, or name the socket of a running one with --socket.",
                isForbidden: false)
        }
    }

    private func send(
        _ command: ControlCommand, _ body: [UInt8], over connection: Connection,
        _ take: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        try await connection.executeThenClose { inbound, outbound in
            let head = HTTPRequestHead(
                version: .http1_1, method: .init(rawValue: command.method.rawValue), uri: command.target,
                headers: [
                    "Host": "localhost", "Connection": "close", "Content-Length": String(body.count),
                ])
            var parts: [HTTPClientRequestPart] = [.head(head)]
            if !body.isEmpty { parts.append(.body(.byteBuffer(NIOCore.ByteBuffer(bytes: body)))) }
            // Written in one call: after the last byte the daemon may answer and close, and further writes
            // would fail.
            try await outbound.write(contentsOf: parts + [.end(nil)])

            var status: HTTPResponseStatus?
            var refusal: [UInt8] = []
            for try await part in inbound {
                switch part {
                case .head(let head): status = head.status
                case .body(let bytes):
                    if let status, status.code < 300 {
                        try await take(ArraySlice(bytes.readableBytesView))
                    } else {
                        refusal += bytes.readableBytesView
                    }
                case .end:
                    guard let status, status.code >= 300 else { return }
                    throw Self.error(refusal, status)
                }
            }
            throw cutOff
        }
    }

    private var cutOff: Unreachable {
        Unreachable(
            description: "\(program) ended, or closed the connection, before its answer was complete.",
            isForbidden: false)
    }

    private static func error(_ body: [UInt8], _ status: HTTPResponseStatus) -> ControlError {
        do {
            return try ControlJSON.read(ControlFailure.self, from: body).error
        } catch {
            return ControlError(.failed, "The daemon answered \(status.code) \(status.reasonPhrase).")
        }
    }
}

/// The one thread on which all clients of a process wait for their daemons. It starts with the first request,
/// and sleeps in the kernel while there is none.
enum ControlThread {
    static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
}
