import Glibc
import HistoryControl
import NIOCore
import NIOHTTP1
import PersistentHistory

/// A request whose body, if any, is not read.
package struct HTTPQuery: Sendable {
    /// The method and the path, as in `GET /metrics`.
    package let line: String
    /// Whether it comes from root, or from this process's user. A TCP connection has no user.
    package let maySteer: Bool
}

/// The answer to a query.
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
    /// Answers queries until the task is cancelled. A `ControlError` is an answer, too. A connection that finds
    /// no free slot is closed.
    package func run(answer: @escaping @Sendable (HTTPQuery) async throws -> HTTPAnswer) async throws {
        let slots = ConnectionSlots()
        try await run { channel, connection in try await serve(channel, connection, slots, answer) }
    }

    private func serve(
        _ channel: any Channel, _ connection: Connection, _ slots: ConnectionSlots,
        _ answer: (HTTPQuery) async throws -> HTTPAnswer
    ) async throws {
        try await connection.executeThenClose { inbound, outbound in
            let peer = try await Peer(of: channel)
            guard let slot = slots.take(for: peer, feeds: 0) else { return }
            defer { slot.leave() }
            let deadline = ControlConnection.deadline(of: channel)
            defer { deadline.cancel() }
            try await channel.setOption(.autoRead, value: true).get()
            for try await part in inbound {
                guard case .head(let head) = part else { continue }
                deadline.cancel()
                let line = "\(head.method.rawValue) \(head.uri.prefix { $0 != "?" })"
                let response = ControlResponse(outbound, of: channel)
                do {
                    let answer = try await answer(HTTPQuery(line: line, maySteer: peer.maySteer))
                    try await response.send(answer.body, type: answer.type, status: answer.status)
                } catch let error as ControlError {
                    try await response.send(error)
                }
                return try await response.end()
            }
        }
    }
}
