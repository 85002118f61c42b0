/// What the server reports about a request for messages, in a message of its own.
///
/// A stored message has a JetStream reply subject, and may have a `Status` header of its own. A status message
/// arrives on the request's subject, without a reply subject; `isWord` decides by that alone.
package enum PullStatus: Hashable, Sendable {
    /// The request is open, and nothing has arrived for a while.
    case heartbeat
    /// The request has timed out.
    case timeout
    /// The next message is larger than the rest of the request's bytes.
    case tooLarge
    /// The request has ended for another reason: all its messages have arrived, or a reason that this program
    /// does not know. The consumer may still exist.
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

    /// Whether a message is a status message of the server, and not a stored one.
    package static func isWord(reply: String) -> Bool { StreamSearch.sequence(inReply: reply) == nil }
}

/// Counts the requests in a row that end without a message and before their timeout: a refusal of an unknown
/// kind must not be repeated without end.
package struct FutileRequests: Sendable {
    private static let most = 3
    private var count = 0

    package init() {}

    /// Resets the count: a message arrived, or a request timed out.
    package mutating func progressed() { count = 0 }

    /// - Returns: Whether another request may be made.
    package mutating func ended() -> Bool {
        count += 1
        return count <= Self.most
    }
}
