/// The headers that chain each message of a session to the one before it.
///
/// The server stores a message only if the stream's last message has the given sequence and id.
/// A publisher that was replaced, and a part that arrives late, are refused. The sequence alone is not enough: it
/// recurs after a server was restored to an older state.
package struct MessageChain: Sendable {
    package let stream: String
    package let session: String
    /// The sequence of the last message that was sent.
    package private(set) var lastSequence: UInt64
    private var lastID: String?
    private var count = 0

    /// - Parameters:
    ///   - session: A new id for each session.
    ///   - lastSequence: The stream's last sequence, as read.
    package init(stream: String, session: String, after lastSequence: UInt64) {
        self.stream = stream
        self.session = session
        self.lastSequence = lastSequence
    }

    /// The headers of the next message. The first message is the fence: the server may no longer know the id of
    /// the message before it, so its only condition is the sequence.
    package mutating func next() -> [(name: String, value: String)] {
        let id = "\(session)/\(count)"
        var fields = [
            (name: "Nats-Msg-Id", value: id), (name: "Nats-Expected-Stream", value: stream),
            (name: "Nats-Expected-Last-Sequence", value: String(lastSequence)),
        ]
        if let lastID { fields.append((name: "Nats-Expected-Last-Msg-Id", value: lastID)) }
        lastID = id
        lastSequence += 1
        count += 1
        return fields
    }
}
