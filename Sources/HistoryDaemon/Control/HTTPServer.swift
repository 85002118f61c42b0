package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PersistentHistory

/// Serves HTTP on listening sockets: one request a connection, each in a task of its own that is cancelled when the
/// client goes away.
///
/// Its one thread sleeps in the kernel until a client connects.
package struct HTTPServer: Sendable {
    private let descriptors: [Int32]
    let logger: Logger

    package init(_ descriptors: [Int32], logger: Logger) {
        self.descriptors = descriptors
        self.logger = logger
    }

    /// Serves until the task is cancelled; the end of their connections tells that the clients.
    ///
    /// - Parameters:
    ///   - accepting: Called when a socket accepts.
    ///   - serve: Serves a connection that nothing was read from: who serves it is the one to make an async channel of
    ///     it. One that is made and never served, because the program stops just then, is a fatal error of NIO's.
    func run(
        accepting: @escaping @Sendable () -> Void = {},
        serve: @escaping @Sendable (any Channel) async throws -> Void
    ) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        do {
            try await withThrowingDiscardingTaskGroup { tasks in
                for descriptor in descriptors {
                    tasks.addTask {
                        let server = try await bind(descriptor, group)
                        accepting()
                        try await accept(server, serve)
                    }
                }
            }
        } catch is CancellationError {
            // The program stops.
        }
        try await group.shutdownGracefully()
    }

    private typealias Server = NIOAsyncChannel<any Channel, Never>

    private func bind(_ descriptor: Int32, _ group: MultiThreadedEventLoopGroup) async throws -> Server {
        let bootstrap = ServerBootstrap(group: group).childChannelOption(.autoRead, value: false)
        return try await bootstrap.bind(descriptor) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withPipeliningAssistance: false, withErrorHandling: false,
                    withOutboundHeaderValidation: true, withEncoderConfiguration: .init(),
                    withDecoderLimitConfiguration: ControlConnection.headLimits)
                try channel.pipeline.syncOperations.addHandler(RequestErrors())
                return channel
            }
        }
    }

    private func accept(
        _ server: Server, _ serve: @escaping @Sendable (any Channel) async throws -> Void
    ) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            try await server.executeThenClose { channels in
                for try await channel in channels {
                    // Requests read files, and wait for stores: not on the loop.
                    group.addTask(executorPreference: BlockingExecutor.shared) {
                        do {
                            try await serve(channel)
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
}
