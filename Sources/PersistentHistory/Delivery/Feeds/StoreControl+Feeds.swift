package struct FeedStanding: Sendable, Equatable {
    package let feed: FeedID
    package let state: FeedState
    /// History was deleted that it has not delivered: its program is notified when it connects.
    package let isExpired: Bool
    /// The process that is connected.
    package let client: Int32?
}

/// What programs ask that are connected to a feed. Everything throws `HistoryError`.
extension StoreControl {
    /// Sends a program what its feed has for it, from the last that it acknowledged, until the task is
    /// cancelled. While the store is not open it waits.
    ///
    /// - Parameters:
    ///   - begun: Called when it is certain that the feed exists and no other program is connected.
    ///   - send: Is given whole lines, and waited for: for a slow reader nothing is read ahead.
    /// - Throws: `HistoryError` with `.feedInUse`, `.unknownContext`, `.storeNotOpen` if it is not open to
    ///   begin with, or is served no more, `.tokenForeign` if the store was replaced; and what `begun`
    ///   and `send` throw.
    package func feed(
        _ feed: FeedID, to client: FeedClient, begun: () async throws -> Void,
        send: ([UInt8]) async throws -> Void
    ) async throws {
        try await seats.occupying(feed, by: client) { wakeUp in
            var stream = FeedStream(feed)
            // Noted before it is sent: the program may acknowledge it at once.
            func sendNoted(_ lines: [UInt8]) async throws {
                if let sent = stream.sent { seats.note(sent: sent, by: feed, to: client) }
                try await send(lines)
            }
            if let first = try await stream.next(self) {
                try await begun()
                try await sendNoted(first)
            }
            wakeUp.notify()
            for await _ in wakeUp {
                // What an operator holds back is held back here, too.
                while await passes.enter(over, feed.consumer) {
                    passes.leave(feed.consumer)
                    guard let lines = try await stream.next(self) else { break }
                    try await sendNoted(lines)
                }
                if over.isSignaled { break }
            }
            if over.isSignaled { throw Self.isOver }
        }
    }

    /// Notes that a feed's program is done with everything up to a token.
    ///
    /// - Parameter userID: Whose program it is: it may acknowledge what the feed has sent to programs of that
    ///   user. Nil for a user that may skip what was not sent yet.
    /// - Returns: Where the feed is: there or, where more was acknowledged before, further.
    /// - Throws: `HistoryError`, with `.tokenNotSent` if the token was not sent to that user.
    package func acknowledge(_ token: HistoryToken, of feed: FeedID, by userID: UInt32?) async throws
        -> HistoryToken
    {
        let state = try await retryingWhileBusy {
            try await ask { [seats] session in
                if let userID {
                    try session.feeds.check(token, of: feed, sent: seats.sent(by: feed, to: userID))
                }
                defer { session.opened.cleaning.wakeUp.notify() }
                return try session.feeds.acknowledge(token, of: feed)
            }
        }
        seats.notify(feed)
        return state
    }
}

extension StoreSession {
    func feedStandings(_ clients: [FeedID: Int32]) throws -> [FeedStanding] {
        guard store.consumers.contains(where: { !$0.feeds.isEmpty }) else { return [] }
        let states = try state.feeds.all()
        let oldest = try source.oldestToken().number
        return store.consumers.flatMap { consumer in
            consumer.feeds.compactMap { context in
                let feed = FeedID(consumer: consumer.author, context: context.name)
                return states[feed].map { state in
                    FeedStanding(
                        feed: feed, state: state, isExpired: state.expiry != nil || state.position < oldest,
                        client: clients[feed])
                }
            }
        }
    }
}
