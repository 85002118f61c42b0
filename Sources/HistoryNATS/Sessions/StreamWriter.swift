import DequeModule
import HistoryConfiguration
import HistoryMirrors
import PersistentHistory

/// Appends messages to a stream, each chained to the one before. It sends a window of messages without waiting
/// for acknowledgements, and no more bytes than the link carries within seconds.
struct StreamWriter {
    /// How long the server may take to answer.
    private static let timeout: Duration = .seconds(10)
    /// The space reserved in a message for headers and subject.
    private static let headerSpace = 3 << 10

    private let connection: any StreamConnection
    private let answers: any StreamSubscription
    private let window: Int
    private var chain: MessageChain
    /// The messages that are not acknowledged.
    private var outstanding: Deque<Sent> = []
    private var outstandingBytes = 0
    /// The sequence of the last message that the server has acknowledged, or of the one before the first.
    private(set) var lastAcknowledged: UInt64

    private struct Sent {
        let bytes: Int
        /// How many bytes were in flight with it.
        let underWay: Int
        let time: ContinuousClock.Instant
    }

    init(_ connection: any StreamConnection, _ stream: String, after sequence: UInt64, window: Int) throws {
        self.connection = connection
        self.window = window
        answers = try connection.subscribe(try connection.inbox())
        lastAcknowledged = sequence
        chain = MessageChain(stream: stream, session: Self.newSession(), after: sequence)
    }

    /// A prefix for subjects that are used only once.
    private static func newSession() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// The session in its messages' ids.
    var session: String { chain.session }

    /// The sequence of the last message that was sent.
    var lastSequence: UInt64 { chain.lastSequence }

    /// Sends a message. Waits while the window is full.
    ///
    /// - Throws: `NATSError`, `JetStreamError`; nothing more may be sent then.
    mutating func send(_ subject: String, _ header: GroupHeader, _ body: [UInt8] = []) throws {
        while !outstanding.isEmpty, outstanding.count >= window || !hasRoom(for: body.count) {
            try awaitAcknowledgement()
        }
        try connection.publish(subject, reply: answers.subject, fields: chain.next() + header.fields, body)
        outstandingBytes += body.count
        outstanding.append(Sent(bytes: body.count, underWay: outstandingBytes, time: .now))
    }

    /// The size of a body's parts.
    ///
    /// - Throws: `NATSError` if the server's limit for messages is too small.
    func partSize(atMost limit: Int, on subject: String) throws -> Int {
        let size = min(limit, connection.maximumPayload - Self.headerSpace)
        guard size >= 1024 else {
            throw NATSError(
                call: "publish on \(subject)",
                reason:
                    "the server's max_payload is \(connection.maximumPayload), and at least \(Self.headerSpace + 1024) is needed"
            )
        }
        return size
    }

    /// Sends a body in as many messages as it needs.
    ///
    /// - Parameter header: Returns the header of a part, by its number.
    mutating func send(
        _ body: GroupBody, to subject: String, atMost limit: Int,
        header: (_ part: Int, _ isLast: Bool) -> GroupHeader
    ) throws {
        let size = try partSize(atMost: limit, on: subject)
        var (part, offset) = (0, 0)
        repeat {
            let bytes = try body.bytes(at: offset, atMost: size)
            offset += bytes.count
            try send(subject, header(part, offset >= body.count), bytes)
            part += 1
        } while offset < body.count
    }

    private func hasRoom(for bytes: Int) -> Bool {
        outstandingBytes + bytes <= connection.sending.withLock(\.allowance)
    }

    /// Whether a part can be sent without waiting for an acknowledgement.
    mutating func isReady(for bytes: Int) throws -> Bool {
        while !outstanding.isEmpty, answers.hasMessages { try awaitAcknowledgement() }
        return outstanding.isEmpty || outstanding.count < window && hasRoom(for: bytes)
    }

    /// Waits until all messages are acknowledged.
    mutating func drain() throws { while !outstanding.isEmpty { try awaitAcknowledgement() } }

    /// Waits for the acknowledgement of the first message that has none.
    mutating func awaitOne() throws { if !outstanding.isEmpty { try awaitAcknowledgement() } }

    private mutating func awaitAcknowledgement() throws {
        let message: any StreamMessage
        do {
            message = try answers.next(timeout: Self.timeout)
        } catch let error as NATSError where error.isTimeout {
            throw NATSError(
                call: "publish to \(chain.stream)",
                reason: "the server does not acknowledge\(connection.refusal)", isTimeout: true)
        }
        let expected = lastAcknowledged + 1
        if let sent = outstanding.popFirst() {
            outstandingBytes -= sent.bytes
            connection.sending.withLock { $0.carried(sent.underWay, in: .now - sent.time) }
        }
        // The usual answer, recognized without decoding.
        if message.withBody({ $0.elementsEqual(#"{"stream":"\#(chain.stream)", "seq":\#(expected)}"#.utf8) }) {
            lastAcknowledged = expected
            return
        }
        if message.header("Status") == "503" {
            throw NATSError(call: "publish to \(chain.stream)", reason: "no stream takes the message")
        }
        let answer = try JetStream.answer(message.body, to: "publish to \(chain.stream)")
        let sequence = answer["seq"]?.number?.integer ?? 0
        guard sequence == Int(expected), answer["duplicate"]?.bool != true else {
            throw NATSError(
                call: "publish to \(chain.stream)",
                reason: "the message got the sequence \(sequence), not \(expected)")
        }
        lastAcknowledged = expected
    }
}
