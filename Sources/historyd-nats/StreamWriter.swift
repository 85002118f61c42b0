import HistoryConfiguration
import HistoryNATS
import PersistentHistory

/// Appends messages to a stream, each chained to the one before. It sends a window of them without waiting for
/// acknowledgements.
struct StreamWriter {
    /// How long the server may take to answer.
    private static let timeout: Duration = .seconds(10)
    /// The space that is reserved in a message for its headers and subject.
    private static let headerSpace = 3 << 10

    private let connection: NATSConnection
    private let answers: NATSSubscription
    private let window: Int
    private var chain: MessageChain
    /// How many messages are not acknowledged.
    private var outstanding = 0

    init(_ connection: NATSConnection, _ stream: String, after sequence: UInt64, window: Int) throws {
        self.connection = connection
        self.window = window
        answers = try connection.subscribe(try NATSConnection.inbox())
        chain = MessageChain(stream: stream, session: Self.newSession(), after: sequence)
    }

    /// Subjects that are used only once.
    private static func newSession() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// The id of the last message that was sent.
    var lastSequence: UInt64 { chain.lastSequence }

    /// Sends a message. Waits while the window is full.
    ///
    /// - Throws: `NATSError`, `JetStreamError`: then nothing more may be sent.
    mutating func send(_ subject: String, _ header: GroupHeader, _ body: [UInt8] = []) throws {
        if outstanding >= window { try awaitAcknowledgement() }
        try connection.publish(subject, reply: answers.subject, fields: chain.next() + header.fields, body)
        outstanding += 1
    }

    /// The size of a body's parts.
    ///
    /// - Throws: `NATSError` if the server takes only messages that are too small.
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
    /// - Parameter header: Of a part, by its number.
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

    /// Whether fewer messages than a number are not acknowledged; waits for none.
    mutating func hasFewer(than most: Int) throws -> Bool {
        while outstanding > 0, answers.hasMessages { try awaitAcknowledgement() }
        return outstanding < most
    }

    /// Waits until all messages are acknowledged.
    mutating func drain() throws { while outstanding > 0 { try awaitAcknowledgement() } }

    private mutating func awaitAcknowledgement() throws {
        let message: NATSMessage
        do {
            message = try answers.next(timeout: Self.timeout)
        } catch let error as NATSError where error.isTimeout {
            throw NATSError(
                call: "publish to \(chain.stream)",
                reason: "the server does not acknowledge\(connection.refusal)", isTimeout: true)
        }
        let expected = chain.lastSequence - UInt64(outstanding) + 1
        defer { outstanding -= 1 }
        // In these words; anything else is decoded.
        if message.withBody({ $0.elementsEqual(#"{"stream":"\#(chain.stream)", "seq":\#(expected)}"#.utf8) }) {
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
    }
}
