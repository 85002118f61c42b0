import PersistentHistory

/// Reads a stream's messages from a sequence on. It requests as many at once as the link carries within
/// seconds.
///
/// The server stores no position for it: the mirror does.
final class PullConsumer {
    /// A message of the stream.
    struct Delivered {
        let sequence: UInt64
        let content: Result<GroupHeader, ForeignMessage>
        /// How many messages follow it in the stream.
        let pending: UInt64
        let messageID: String
        let subject: String
        /// Kept, because libnats frees messages on another thread, which must not wake up before the group is
        /// applied.
        fileprivate let message: any StreamMessage

        var header: GroupHeader? { try? content.get() }

        /// Passes the body to a closure, which must not keep it.
        func withBody<T>(_ read: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
            try message.withBody(read)
        }
    }

    /// A request that has not ended.
    private struct Request {
        let number: Int
        var outstanding: Int
        var bytes = 0
        /// The time spent only on waiting for its messages.
        var waited: Duration = .zero
    }

    private static let batch = 256
    /// How often the server reports an open request while no message arrives.
    private static let heartbeat: Duration = .seconds(7)
    /// nats-server 2.9 ends a request silently if a message fills its byte limit exactly.
    private static let silenceAmongMessages: Duration = .seconds(6)

    private let connection: any StreamConnection
    private let answers: any StreamSubscription
    private let inbox: String
    private let requests: String
    private let timeout: Duration
    /// Nil for short requests.
    private let heartbeat: Duration?
    private var request: Request?
    private var count = 0
    /// How many messages follow the last one in the stream.
    private var pending: UInt64 = 0
    private var pace: LinkPace
    private var futile = FutileRequests()

    /// - Parameters:
    ///   - subject: Nil for all subjects of the stream.
    ///   - timeout: How long a request waits at the server before the next one.
    init(
        _ jetStream: JetStream, of stream: String, from sequence: UInt64, subject: String? = nil,
        timeout: Duration = .seconds(240)
    ) throws {
        self.timeout = timeout
        heartbeat = timeout >= Self.heartbeat * 3 ? Self.heartbeat : nil
        connection = jetStream.connection
        pace = connection.receiving.withLock { $0 }
        inbox = try connection.inbox()
        answers = try connection.subscribe("\(inbox).*")
        let consumer = try jetStream.makeConsumer(of: stream, from: sequence, subject: subject)
        requests = "\(jetStream.prefix).CONSUMER.MSG.NEXT.\(stream).\(consumer)"
    }

    /// Blocks until a message arrives, a request times out, or the server reports that the request is open.
    ///
    /// - Returns: Nil if no message has arrived.
    /// - Throws: `NATSError`.
    func nextInTime() throws -> Delivered? {
        while true {
            if request == nil { try makeRequest() }
            guard let message = try receive() else { continue }
            guard PullStatus.isWord(reply: message.reply) else { return try delivered(message) }
            // An earlier request may end late.
            guard let request, message.subject == "\(inbox).\(request.number)" else { continue }
            let status = PullStatus(
                code: message.header("Status") ?? "", description: message.header("Description") ?? "")
            switch status {
            case .heartbeat:
                futile.progressed()
                return nil
            case .timeout:
                futile.progressed()
                self.request = nil
                return nil
            case .tooLarge where request.bytes == 0:
                self.request = nil
                pace.mustCarryMore()
            case .tooLarge: end(request)
            case .ended(let reason):
                end(request)
                guard request.bytes > 0 || futile.ended() else {
                    throw NATSError(call: "follow", reason: "each request ends with: \(reason)")
                }
            case .fatal(let reason): throw NATSError(call: "follow", reason: reason)
            }
        }
    }

    /// - Returns: Nil if the request must be repeated.
    private func receive() throws -> (any StreamMessage)? {
        let isAmongMessages = pending > 0 && request?.bytes ?? 0 > 0
        let limit = heartbeat.map { $0 * 2 + .seconds(1) } ?? timeout + .seconds(5)
        let start = ContinuousClock.now
        do {
            let message = try answers.next(
                timeout: isAmongMessages ? min(limit, Self.silenceAmongMessages) : limit)
            request?.waited += .now - start
            return message
        } catch let error as NATSError where error.isTimeout {
            guard isAmongMessages else {
                throw NATSError(
                    call: "follow", reason: "the server has been silent for \(limit.components.seconds) s",
                    isTimeout: true)
            }
            request = nil
            // Makes the next silence an error.
            pending = 0
            return nil
        }
    }

    private func delivered(_ message: any StreamMessage) throws -> Delivered {
        guard let (sequence, pending) = StreamSearch.sequence(inReply: message.reply) else {
            throw NATSError(call: "follow", reason: "a message has no sequence")
        }
        self.pending = pending
        futile.progressed()
        if var current = request {
            current.outstanding -= 1
            current.bytes += message.count
            request = current
            if current.outstanding <= 0 { end(current) }
        }
        return Delivered(
            sequence: sequence, content: GroupHeader.read { message.header($0) }, pending: pending,
            messageID: message.header("Nats-Msg-Id") ?? "", subject: message.subject, message: message)
    }

    private func makeRequest() throws {
        count += 1
        let nanoseconds = "000000"
        let beat = heartbeat.map { #","idle_heartbeat":\#($0.milliseconds)\#(nanoseconds)"# } ?? ""
        let body =
            #"{"batch":\#(Self.batch),"max_bytes":\#(pace.allowance),"expires":\#(timeout.milliseconds)\#(nanoseconds)\#(beat)}"#
        try connection.publish(requests, reply: "\(inbox).\(count)", fields: [], Array(body.utf8))
        request = Request(number: count, outstanding: Self.batch)
    }

    /// Ends a request whose messages have all arrived.
    private func end(_ ended: Request) {
        request = nil
        pace.carried(ended.bytes, in: ended.waited)
        connection.receiving.withLock { $0 = pace }
    }
}
