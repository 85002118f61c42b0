import Glibc
import HistoryControl
package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PersistentHistory

/// Serves HTTP on listening sockets: one request per connection, each in its own task, which is cancelled when
/// the client disconnects.
package struct HTTPServer: Sendable {
    /// The one thread of all servers sleeps in the kernel until a client connects. It lives as long as the process:
    /// ending it takes libdispatch's pool, which traps where threads or descriptors are lacking.
    private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    private let descriptors: [Int32]
    let logger: Logger
    private let connections = OpenChannels()

    typealias Connection = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>
    typealias Serving = @Sendable (any Channel, Connection) async throws -> Void

    package init(_ descriptors: [Int32], logger: Logger) {
        self.descriptors = descriptors
        self.logger = logger
    }

    /// Serves until the task is cancelled. Clients notice that by the end of their connections.
    ///
    /// - Parameters:
    ///   - accepting: Called when a socket accepts connections.
    ///   - serve: Serves a new connection, from which nothing has been read.
    func run(
        accepting: @escaping @Sendable () -> Void = {},
        serve: @escaping Serving
    ) async throws {
        do {
            try await withThrowingDiscardingTaskGroup { tasks in
                for descriptor in descriptors {
                    tasks.addTask {
                        let server = try await bind(descriptor)
                        accepting()
                        try await accept(server, serve)
                    }
                }
            }
        } catch is CancellationError {
            // The program stops.
        }
        await connections.close()
    }

    private typealias Server = NIOAsyncChannel<any Channel, Never>

    private func bind(_ descriptor: Int32) async throws -> Server {
        let bootstrap = ServerBootstrap(group: Self.group).childChannelOption(.autoRead, value: false)
        let server: Server = try await bootstrap.bind(descriptor) { channel in
            connections.add(channel)
            return channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withPipeliningAssistance: false, withErrorHandling: false,
                    withOutboundHeaderValidation: true, withEncoderConfiguration: .init(),
                    withDecoderLimitConfiguration: ControlConnection.headLimits)
                try channel.pipeline.syncOperations.addHandler(RequestErrors())
                return channel
            }
        }
        // NIO calls listen() again, with 128, before it reads any option. The kernel caps this at
        // net.core.somaxconn: a user that keeps connecting and leaving must not keep others out.
        _ = listen(descriptor, .max)
        return server
    }

    private func accept(
        _ server: Server, _ serve: @escaping Serving
    ) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            try await server.executeThenClose { channels in
                for try await channel in channels {
                    // Requests read files and wait for stores, so they do not run on the loop.
                    group.addTask(executorPreference: BlockingExecutor.shared) {
                        do {
                            try await serve(channel, connection(over: channel))
                        } catch {
                            // A client that disconnects early is not an error.
                            logger.debug("A connection ended early.", metadata: ["error": "\(error)"])
                        }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// Creates the channel only for a caller that serves it: NIO treats a channel that is created and never
    /// served as a fatal error, even if the program is stopping.
    private func connection(over channel: any Channel) async throws -> Connection {
        try await channel.eventLoop.submit {
            // The channel of a client that has already disconnected cannot become one.
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
            return try Connection(wrappingChannelSynchronously: channel)
        }.get()
    }
}

/// The connections of a server. A stop may find some that are not served yet, and some whose channel is still open; and
/// one that was accepted before it may come after it.
private final class OpenChannels: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var isClosed = false
    }

    private let state = Locked(State())

    func add(_ channel: any Channel) {
        let id = ObjectIdentifier(channel)
        let isLate = state.withLock { state in
            if !state.isClosed { state.channels[id] = channel }
            return state.isClosed
        }
        if isLate { return channel.close(promise: nil) }
        channel.closeFuture.whenComplete { [state] _ in
            _ = state.withLock { $0.channels.removeValue(forKey: id) }
        }
    }

    func close() async {
        let open = state.withLock { state in
            state.isClosed = true
            return Array(state.channels.values)
        }
        for channel in open {
            try? await channel.close()  // It may have closed by itself.
        }
    }
}

/// Answers a request that is not HTTP, or whose head is too large: once, and not behind another response.
final class RequestErrors: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var hasAnswered = false

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The decoder closes the connection as soon as this returns.
        if error is HTTPParserError, !hasAnswered { answer(context, error) }
        context.fireErrorCaught(error)
    }

    private func answer(_ context: ChannelHandlerContext, _ error: any Error) {
        hasAnswered = true
        let failure = ControlFailure(ControlError(.badRequest, "The request cannot be read as HTTP: \(error)."))
        // Encoding cannot fail here.
        guard let bytes = try? ControlJSON.bytes(failure) else { return }
        let headers: HTTPHeaders = [
            "Content-Type": "application/json", "Connection": "close", "Content-Length": String(bytes.count),
        ]
        let head = HTTPResponseHead(version: .http1_1, status: .badRequest, headers: headers)
        context.write(Self.wrapOutboundOut(.head(head)), promise: nil)
        context.write(Self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil)), promise: nil)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .head = Self.unwrapOutboundIn(data) { hasAnswered = true }
        context.write(data, promise: promise)
    }
}
