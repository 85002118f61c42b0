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
/// Its one thread sleeps in the kernel until a client connects.
struct ControlServer: Service {
    let listener: ControlListener
    let logger: Logger
    /// Opened when it accepts.
    let gate: OneShotEvent
    let handler: ControlHandler

    func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        // Nothing is read before somebody serves the connection, who is the one to make an async channel of it:
        // one that is made and never served, because the daemon stops just then, is a fatal error of NIO's.
        let bootstrap = ServerBootstrap(group: group).childChannelOption(.autoRead, value: false)
        let server = try await bootstrap.bind(listener.descriptor) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withPipeliningAssistance: false, withErrorHandling: false,
                    withOutboundHeaderValidation: true, withEncoderConfiguration: .init(),
                    withDecoderLimitConfiguration: ControlConnection.headLimits)
                try channel.pipeline.syncOperations.addHandler(RequestErrors())
                return channel
            }
        }
        gate.signal()
        defer { listener.remove() }
        do {
            try await cancelWhenGracefulShutdown { try await accept(server) }
        } catch is CancellationError {
            // The daemon stops; the end of the connection tells the clients.
        }
        try await group.shutdownGracefully()
    }

    private func accept(_ server: NIOAsyncChannel<any Channel, Never>) async throws {
        let slots = ConnectionSlots()
        try await withThrowingDiscardingTaskGroup { group in
            try await server.executeThenClose { channels in
                for try await channel in channels {
                    // Requests read files, and wait for stores: not on the loop.
                    group.addTask(executorPreference: BlockingExecutor.shared) {
                        let connection = ControlConnection(channel: channel, handler: handler, slots: slots)
                        await quietly { try await connection.serve() }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// A client that disconnects early is not an error.
    private func quietly(_ body: () async throws -> Void) async {
        do {
            try await body()
        } catch {
            logger.debug("A connection to the control socket ended early.", metadata: ["error": "\(error)"])
        }
    }
}
