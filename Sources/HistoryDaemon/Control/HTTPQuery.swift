import Glibc
import NIOCore
import NIOHTTP1
import PersistentHistory

/// A request whose body, if any, nobody reads.
package struct HTTPQuery: Sendable {
    /// The method and the path, as in `GET /metrics`.
    package let line: String
    /// Whether it comes from root, or from the user of this program. By TCP it comes from nobody.
    package let maySteer: Bool
}

/// What a query is answered.
package struct HTTPAnswer: Sendable {
    let status: HTTPResponseStatus
    let type: String
    let body: [UInt8]

    package init(status: Int = 200, type: String = "text/plain", _ body: [UInt8]) {
        self.status = HTTPResponseStatus(statusCode: status)
        self.type = type
        self.body = body
    }

    package init(status: Int = 200, type: String = "text/plain", _ text: String) {
        self.init(status: status, type: type, Array(text.utf8))
    }
}

extension HTTPServer {
    /// More connections at once are closed.
    static let mostQueries = 16

    /// Answers queries until the task is cancelled.
    package func run(answer: @escaping @Sendable (HTTPQuery) async -> HTTPAnswer) async throws {
        let open = Locked(0)
        try await run { channel in
            let count = open.withLock { count in
                count += 1
                return count
            }
            defer { open.withLock { $0 -= 1 } }
            if count > Self.mostQueries { return try await channel.close() }
            try await serve(channel, answer)
        }
    }

    private func serve(_ channel: any Channel, _ answer: (HTTPQuery) async -> HTTPAnswer) async throws {
        let connection = try await channel.eventLoop.submit {
            // A client that has gone already leaves a channel that cannot become one.
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
            return try ControlConnection.Wrapped(wrappingChannelSynchronously: channel)
        }.get()
        try await connection.executeThenClose { inbound, outbound in
            let maySteer = try await Peer(of: channel).maySteer(daemon: geteuid())
            let deadline = channel.eventLoop.scheduleTask(in: ControlConnection.timeout) {
                channel.close(promise: nil)
            }
            defer { deadline.cancel() }
            try await channel.setOption(.autoRead, value: true).get()
            for try await part in inbound {
                guard case .head(let head) = part else { continue }
                deadline.cancel()
                let line = "\(head.method.rawValue) \(head.uri.prefix { $0 != "?" })"
                let answer = await answer(HTTPQuery(line: line, maySteer: maySteer))
                let response = ControlResponse(outbound, of: channel)
                try await response.send(answer.body, type: answer.type, status: answer.status)
                return try await response.end()
            }
        }
    }
}
