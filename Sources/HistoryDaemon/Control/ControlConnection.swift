import Glibc
import HistoryControl
import Logging
import NIOCore
import NIOHTTP1

/// One connection to the control socket: it carries one request and one response.
///
/// Everything a client can send, hold or wait for is bounded: the head by the decoder (`headLimits`), the body,
/// the time for the request and for reading the response, and the number of connections of one user.
struct ControlConnection {
    /// How long a request may take to arrive, and a response to be read.
    static let timeout: TimeAmount = .seconds(30)
    /// No manifest is larger.
    static let largestBody = 1 << 20
    /// For users without permission to add hooks: no other request has a body.
    static let largestIgnoredBody = 4096

    /// Far more than any request needs.
    static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 << 10
        limits.maxHeaderListSize = 32 << 10
        limits.maxHeaderFieldCount = 64
        return limits
    }

    /// Closes a connection after the timeout.
    static func deadline(of channel: any Channel) -> Scheduled<Void> {
        channel.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
    }

    let channel: any Channel
    let handler: ControlHandler
    let slots: ConnectionSlots

    /// - Throws: An error of the connection, when the client disconnects.
    func serve(_ connection: HTTPServer.Connection) async throws {
        try await connection.executeThenClose { inbound, outbound in
            let peer = try await Peer(of: channel)
            guard let slot = slots.take(for: peer, feeds: await handler.feedCount) else {
                return try await refuse(peer, outbound)
            }
            defer { slot.leave() }
            try await channel.setOption(.autoRead, value: true).get()
            try await withThrowingTaskGroup(of: Void.self) { group in
                let deadline = Self.deadline(of: channel)
                defer { deadline.cancel() }
                var request = RequestReader(limit: peer.maySteer ? Self.largestBody : Self.largestIgnoredBody)
                for try await part in inbound {
                    if request.isFlooded { break }
                    guard let command = request.take(part) else { continue }
                    deadline.cancel()
                    group.addTask {
                        let response = ControlResponse(outbound, of: channel)
                        await handler.answer(command, from: peer, response)
                        try await response.end()
                        try await channel.close()
                    }
                }
                // The client has disconnected, or has its response.
                group.cancelAll()
            }
        }
    }

    /// Refuses the peer before anything is read: the response fits into any socket's buffer.
    private func refuse(_ peer: Peer, _ outbound: ControlResponse.Writer) async throws {
        handler.repeatedLines.log("not let in", by: peer) { [logger = handler.logger] more in
            logger.warning(
                "\(peer) was refused on the control socket: a user may have \(ConnectionSlots.mostOfOne) connections, all together \(ConnectionSlots.most)\(more)."
            )
        }
        let response = ControlResponse(outbound, of: channel)
        try await response.send(
            ControlError(
                .tooManyConnections,
                "There are too many connections to the control socket: a user may have \(ConnectionSlots.mostOfOne), and all users together \(ConnectionSlots.most), besides those at feeds."
            ))
        try await response.end()
    }
}
