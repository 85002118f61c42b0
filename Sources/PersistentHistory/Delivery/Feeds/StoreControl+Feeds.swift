package struct FeedStanding: Sendable, Equatable {
    package let feed: FeedID
    package let state: FeedState
    /// Whether history was deleted that it has not delivered. Its program is notified when it connects.
    package let isExpired: Bool
    /// The connected process.
    package let client: Int32?
}

/// Requests of programs that are connected to a feed. All throw `HistoryError`.
extension StoreControl {
    /// Sends a program what its feed has for it, after the last acknowledged token, until the task is
    /// cancelled. It waits while the store is not open.
    ///
    /// - Parameters:
    ///   - begun: Called when it is certain that the feed exists and no other program is connected.
    ///   - send: Receives whole lines. It is awaited: nothing is read ahead for a slow reader.
    /// - Throws: `HistoryError` with `.feedInUse`, `.unknownContext`, `.storeNotOpen` if the store is not
    ///   open at first or is no longer served, `.tokenForeign` if the store was replaced; and what
    ///   `begun` and `send` throw.
    package func feed(
        _ feed: FeedID, to client: FeedClient, begun: () async throws -> Void,
        send: ([UInt8]) async throws -> Void
    ) async throws {
        try await seats.occupying(feed, by: client) { wakeUp in
            var stream = FeedStream(feed)
            // Recorded before it is sent: the program may acknowledge it at once.
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
                // A hold by an operator applies here, too.
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

    /// Records that a feed's program has processed everything up to a token.
    ///
    /// - Parameter userID: The program's user. It may acknowledge what the feed has sent to programs of
    ///   that user. Nil for a user that may skip what was not sent yet.
    /// - Returns: The feed's position: the token, or a later one that was acknowledged before.
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
