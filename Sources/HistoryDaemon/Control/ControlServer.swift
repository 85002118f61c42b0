import Glibc
import HistoryControl
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PersistentHistory
import ServiceLifecycle

/// Serves HTTP on the control socket: one request a connection, each in a task of its own that is
/// cancelled when the client goes away.
///
/// Its one thread sleeps in the kernel until somebody connects.
struct ControlServer: Service {
    /// More bytes are no manifest.
    static let largestBody = 1 << 20
    /// More at once are no people; each costs a descriptor, which plugins and stores need. Those who may
    /// steer are let in all the same.
    static let mostConnections = 64
    /// How long a request may take to come.
    static let patience: Duration = .seconds(30)

    let listener: ControlListener
    let logger: Logger
    /// Opened when it accepts.
    let gate: StartGate
    let handler: ControlHandler

    func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        // Nothing is read before somebody serves the connection, who is the one to make a `Connection` of it:
        // one that is made and never served, because the daemon stops just then, is a fatal error of NIO's.
        let bootstrap = ServerBootstrap(group: group).childChannelOption(.autoRead, value: false)
        let server = try await bootstrap.bind(listener.descriptor) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withPipeliningAssistance: false, withErrorHandling: true)
                return channel
            }
        }
        gate.open()
        defer { listener.remove() }
        do {
            try await cancelWhenGracefulShutdown { try await accept(server) }
        } catch is CancellationError {
            // The daemon stops; who was connected is told by the end of the connection.
        }
        try await group.shutdownGracefully()
    }

    typealias Connection = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>

    private func accept(_ server: NIOAsyncChannel<any Channel, Never>) async throws {
        let count = Locked(0)
        try await withThrowingDiscardingTaskGroup { group in
            try await server.executeThenClose { connections in
                for try await channel in connections {
                    let number = count.withLock {
                        $0 += 1; return $0
                    }
                    group.addTask {
                        await quietly { try await serve(channel, oneOf: number) }
                        count.withLock { $0 -= 1 }
                    }
                }
            }
            group.cancelAll()
        }
    }

    private func serve(_ channel: any Channel, oneOf count: Int) async throws {
        let connection = try await channel.eventLoop.submit {
            // Who has gone already leaves a channel that can not be made one.
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
            return try Connection(wrappingChannelSynchronously: channel)
        }.get()
        try await connection.executeThenClose { inbound, outbound in
            let peer = try await peer(of: channel)
            try await channel.setOption(.autoRead, value: true).get()
            // Programs at feeds are as many as the configuration has feeds, and stay.
            if !peer.maySteer(daemon: geteuid()), await count - handler.listeners > Self.mostConnections {
                logger.warning("\(peer) was not let in: \(Self.mostConnections) are at the control socket.")
                return
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                let hasCome = StopSignal()
                group.addTask {
                    await hasCome.sleep(for: Self.patience)
                    if !hasCome.isRequested { try await connection.channel.close() }
                }
                var request = RequestReader(limit: Self.largestBody)
                for try await part in inbound {
                    guard let command = request.take(part) else { continue }
                    hasCome.request()
                    group.addTask {
                        let response = ControlResponse(outbound, of: connection.channel)
                        await handler.answer(command, from: peer, response)
                        try await response.end()
                        try await connection.channel.close()
                    }
                }
                // The client has gone, or has its answer.
                hasCome.request()
                group.cancelAll()
            }
        }
    }

    /// A client that goes away in the middle of something is nobody's failure.
    private func quietly(_ body: () async throws -> Void) async {
        do {
            try await body()
        } catch {
            logger.debug("A connection to the control socket ended early.", metadata: ["error": "\(error)"])
        }
    }

    private func peer(of channel: any Channel) async throws -> Peer {
        guard let provider = channel as? any SocketOptionProvider else {
            throw ControlError(.failed, "The peer of the control socket can not be told.")
        }
        let credentials: Credentials = try await provider.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: SOL_SOCKET),
            name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
        ).get()
        return Peer(processID: credentials.processID, userID: credentials.userID)
    }

    /// As the kernel lays it out: `struct ucred` of unix(7), which Swift does not see.
    private struct Credentials: Sendable {
        let processID: Int32
        let userID: UInt32
        let groupID: UInt32
    }
}

/// Puts a request together from its parts.
struct RequestReader {
    /// A command with its body, or what is wrong with the request.
    typealias Request = Result<(command: ControlCommand, body: [UInt8]), ControlError>

    let limit: Int
    private var head: Result<ControlCommand, ControlError>?
    private var body: [UInt8] = []

    init(limit: Int) { self.limit = limit }

    /// Gives the request with its last part; nothing is read of a second one.
    mutating func take(_ part: HTTPServerRequestPart) -> Request? {
        switch part {
        case .head(let head):
            self.head = Result { () throws(ControlError) in
                try ControlCommand(method: head.method.rawValue, target: head.uri)
            }
            return nil
        case .body(let bytes):
            // What is too much is counted by one byte, not kept.
            body += bytes.readableBytesView.prefix(limit + 1 - body.count)
            return nil
        case .end:
            guard let head else { return nil }
            self.head = nil
            guard body.count <= limit else {
                return .failure(ControlError(.tooLarge, "The body is longer than \(limit) bytes."))
            }
            return head.map { ($0, body) }
        }
    }
}
