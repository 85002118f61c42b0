import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PersistentHistory
import ServiceLifecycle

/// Serves the metrics, and nothing else, by TCP on sockets that the service manager has made: whoever reaches the port
/// may read them.
///
/// Its one thread sleeps in the kernel until somebody connects. There is none where there are no sockets.
struct MetricsServer: Service {
    /// More connections at once are closed.
    static let mostConnections = 16

    let descriptors: [Int32]
    let handler: ControlHandler

    func run() async throws {
        guard !descriptors.isEmpty else {
            // A service that returns would end the whole group.
            try await gracefulShutdown()
            return
        }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        do {
            try await cancelWhenGracefulShutdown {
                try await withThrowingDiscardingTaskGroup { tasks in
                    for descriptor in descriptors { tasks.addTask { try await serve(descriptor, group) } }
                }
            }
        } catch is CancellationError {
            // The daemon stops.
        }
        try await group.shutdownGracefully()
    }

    private func serve(_ descriptor: Int32, _ group: MultiThreadedEventLoopGroup) async throws {
        let bootstrap = ServerBootstrap(group: group).childChannelOption(.autoRead, value: false)
        let server = try await bootstrap.bind(descriptor) { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withPipeliningAssistance: false, withErrorHandling: true,
                    withOutboundHeaderValidation: true, withEncoderConfiguration: .init(),
                    withDecoderLimitConfiguration: ControlConnection.headLimits)
                return channel
            }
        }
        let open = Locked(0)
        try await withThrowingDiscardingTaskGroup { group in
            try await server.executeThenClose { channels in
                for try await channel in channels {
                    let count = open.withLock { count in
                        count += 1
                        return count
                    }
                    group.addTask(executorPreference: BlockingExecutor.shared) {
                        defer { open.withLock { $0 -= 1 } }
                        do {
                            if count > Self.mostConnections { return try await channel.close() }
                            try await answer(channel)
                        } catch {
                            handler.logger.debug("A scrape ended early.", metadata: ["error": "\(error)"])
                        }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// One request a connection, within the time of a control request.
    private func answer(_ channel: any Channel) async throws {
        let connection = try await channel.eventLoop.submit {
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
            return try ControlConnection.Wrapped(wrappingChannelSynchronously: channel)
        }.get()
        try await connection.executeThenClose { inbound, outbound in
            let deadline = channel.eventLoop.scheduleTask(in: ControlConnection.timeout) {
                channel.close(promise: nil)
            }
            defer { deadline.cancel() }
            try await channel.setOption(.autoRead, value: true).get()
            for try await part in inbound {
                guard case .head(let head) = part else { continue }
                let response = ControlResponse(outbound, of: channel)
                switch (head.method, head.uri.prefix { $0 != "?" }) {
                case (.GET, "/metrics"), (.GET, "/v1/metrics"):
                    try await response.send(await handler.metrics(), type: MetricsText.contentType)
                case (.GET, _):
                    try await response.send(
                        Array("Metrics are at /metrics.\n".utf8), type: "text/plain", status: .notFound)
                default:
                    try await response.send(
                        Array("Metrics are read with GET.\n".utf8), type: "text/plain",
                        status: .methodNotAllowed)
                }
                return try await response.end()
            }
        }
    }
}
