/// The headers that chain each message of a session to the one before it.
///
/// The server stores a message only where the last one of the stream is the one that is named, by sequence and by id.
/// A publisher that was overtaken, and a part that was sent long ago and arrives now, are refused. The sequence alone is
/// not enough: it recurs where a server was set back to an older state.
package struct MessageChain: Sendable {
    package let stream: String
    package let session: String
    /// Of the last message that was sent.
    package private(set) var lastSequence: UInt64
    private var lastID: String?
    private var count = 0

    /// - Parameters:
    ///   - session: Another one each time.
    ///   - lastSequence: Of the stream, as it was read.
    package init(stream: String, session: String, after lastSequence: UInt64) {
        self.stream = stream
        self.session = session
        self.lastSequence = lastSequence
    }

    /// The headers of the next message. The first is the fence: the id of what is before it need not be known to the
    /// server any more, so that the sequence alone is its condition.
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
