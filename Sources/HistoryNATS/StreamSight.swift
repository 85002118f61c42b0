/// The state of a stream, as the server reports it.
package struct StreamState: Hashable, Sendable {
    package var messages: UInt64
    package var bytes: UInt64
    package var first: UInt64
    package var last: UInt64
    /// When the stream was created, in the server's format: a recreated stream has another time.
    package var created: String

    package init(messages: UInt64, bytes: UInt64 = 0, first: UInt64, last: UInt64, created: String) {
        (self.messages, self.bytes, self.first, self.last) = (messages, bytes, first, last)
        self.created = created
    }

    /// Whether the stream was neither recreated nor restored since an earlier state.
    package func continues(_ earlier: StreamState) -> Bool {
        created == earlier.created && last >= earlier.last && first >= earlier.first
    }
}

/// What a follower knows of its stream, to detect a consumer that lost its position, or its server: the stream
/// then has messages that the consumer did not deliver.
package struct StreamSight: Sendable {
    package enum Step: Hashable, Sendable {
        /// Everything was delivered.
        case asBefore
        /// A message was not delivered yet: it may be in transit.
        case again
        /// The content is due for a comparison.
        case compare
        /// The session cannot continue.
        case over(String)
    }

    /// How often to compare the content, even if the stream seems unchanged.
    package static let interval: Duration = .seconds(240)

    package private(set) var state: StreamState
    /// The sequence of the last message that was delivered.
    package var seen: UInt64
    /// The message that was missing at the last check.
    private var missing: UInt64?
    private var compared: ContinuousClock.Instant

    /// - Parameter seen: The sequence before the first one that the consumer delivers.
    package init(state: StreamState, seen: UInt64, at now: ContinuousClock.Instant = .now) {
        (self.state, self.seen, compared) = (state, seen, now)
    }

    package mutating func look(_ new: StreamState, at now: ContinuousClock.Instant) -> Step {
        guard new.continues(state) else { return .over("was made again, or set back") }
        state = new
        if new.last > seen {
            if let missing, missing > seen {
                return .over("has message \(missing), which was not delivered")
            }
            missing = new.last
            return .again
        }
        missing = nil
        if now - compared >= Self.interval {
            compared = now
            return .compare
        }
        return .asBefore
    }
}
