/// What the server says about a request for messages, in a message of its own.
///
/// A stored message has a reply subject of JetStream, and may have a header `Status` of its own. The server's word comes on
/// the subject of the request, without a reply subject: `isWord` decides by that alone.
package enum PullStatus: Hashable, Sendable {
    /// The request is open, and nothing has come for a while.
    case heartbeat
    /// The time of the request is over.
    case timeout
    /// The next message is larger than the rest of the request's bytes.
    case tooLarge
    /// The request has ended for another reason: all of its messages have come, or for one that this program does not
    /// know. The consumer may still be there.
    case ended(String)
    /// The consumer is gone, or every request to it would be refused.
    case fatal(String)

    /// Reads the headers `Status` and `Description`.
    package init(code: String, description: String) {
        let text = description.isEmpty ? "status \(code)" : "\(description) (\(code))"
        func says(_ words: String) -> Bool { description.lowercased().contains(words) }
        switch code {
        case "100": self = .heartbeat
        case "404", "408": self = .timeout
        case "400", "503": self = .fatal(text)
        case _ where says("consumer deleted") || says("push based"): self = .fatal(text)
        case "409" where says("maxbytes"): self = .tooLarge
        default: self = .ended(text)
        }
    }

    /// Whether a message is the server's word, and not one that is stored in a stream.
    package static func isWord(reply: String) -> Bool { StreamSearch.sequence(inReply: reply) == nil }
}

/// How many requests in a row may end without a message and without their time: an unknown refusal must not be asked
/// for again without end.
package struct FutileRequests: Sendable {
    private static let most = 3
    private var count = 0

    package init() {}

    /// A message came, or a request's time was over.
    package mutating func progressed() { count = 0 }

    /// - Returns: Whether another request may be made.
    package mutating func ended() -> Bool {
        count += 1
        return count <= Self.most
    }
}
