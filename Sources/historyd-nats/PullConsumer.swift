import HistoryNATS
import PersistentHistory

/// Reads a stream's messages from a sequence on. It requests them in batches, so that at most one batch is buffered.
///
/// The server stores no position for it: the mirror does.
final class PullConsumer {
    /// A message of the stream.
    struct Delivered {
        let sequence: UInt64
        let content: Result<GroupHeader, ForeignMessage>
        /// How many messages the stream has behind it.
        let pending: UInt64
        let messageID: String
        /// libnats frees messages on another thread, which is not woken before the group is applied.
        fileprivate let message: NATSMessage

        var header: GroupHeader? { try? content.get() }

        /// Lends the body.
        func withBody<T>(_ read: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
            try message.withBody(read)
        }
    }

    private static let batch = 256
    /// On a slow network, the server's answer to a ping waits behind them.
    private static let fewestBytes = 4 << 20

    private let connection: NATSConnection
    private let answers: NATSSubscription
    private let requests: String
    private let timeout: Duration
    /// How many messages of the current request are outstanding.
    private var requested = 0
    /// Of one request. The server may have messages that are larger than those that it takes now.
    private var mostBytes: Int

    /// - Parameters:
    ///   - subject: Nil for all of the stream's.
    ///   - timeout: How long a request waits at the server before the next one.
    init(
        _ jetStream: JetStream, of stream: String, from sequence: UInt64, subject: String? = nil,
        timeout: Duration = .seconds(240)
    ) throws {
        self.timeout = timeout
        connection = jetStream.connection
        mostBytes = max(Self.fewestBytes, 2 * connection.maximumPayload)
        answers = try connection.subscribe(try NATSConnection.inbox())
        let consumer = try jetStream.makeConsumer(of: stream, from: sequence, subject: subject)
        requests = "$JS.API.CONSUMER.MSG.NEXT.\(stream).\(consumer)"
    }

    /// Blocks until there is a message, or the time of a request is over. It counts from the request on, and messages
    /// that come do not prolong it.
    ///
    /// - Throws: `NATSError`.
    func nextInTime() throws -> Delivered? {
        var message: NATSMessage
        repeat {
            if requested == 0 { try request() }
            message = try answers.next(timeout: timeout + .seconds(10))
            guard let status = message.header("Status") else { break }
            if requested == Self.batch, status == "409" { mostBytes = min(2 * mostBytes, 1 << 30) }
            requested = 0
            if try isTimeout(status, message.header("Description") ?? "") { return nil }
        } while true
        requested -= 1
        guard let (sequence, pending) = StreamSearch.sequence(inReply: message.reply) else {
            throw NATSError(call: "follow", reason: "a message has no sequence")
        }
        return Delivered(
            sequence: sequence, content: GroupHeader.read { message.header($0) }, pending: pending,
            messageID: message.header("Nats-Msg-Id") ?? "", message: message)
    }

    private func request() throws {
        let body =
            #"{"batch":\#(Self.batch),"max_bytes":\#(mostBytes),"expires":\#(timeout.milliseconds * 1_000_000)}"#
        try connection.publish(requests, reply: answers.subject, fields: [], Array(body.utf8))
        requested = Self.batch
    }

    /// A status that ends a request but not the consumer: a timeout, or a complete batch.
    private func isTimeout(_ status: String, _ description: String) throws -> Bool {
        if status == "404" || status == "408" { return true }
        guard status == "409", description.contains("MaxBytes") else {
            throw NATSError(call: "follow", reason: "\(description) (\(status))")
        }
        return false
    }
}
