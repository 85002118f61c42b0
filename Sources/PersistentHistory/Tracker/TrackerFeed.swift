internal import Glibc

/// An event of a feed for the program that follows it.
public enum FeedEvent: Sendable, Hashable {
    /// History was lost, or the feed is new and older history was deleted. The program must rebuild from
    /// the store what it made of the changes. What follows comes after `after`.
    case expired(Expiry)
    /// A transaction of another author that merge hooks let through.
    case transaction(HistoryTransaction)
}

extension PersistentHistoryTracker {
    /// Follows one of the tracker's feeds until the task is cancelled. `run()` must run concurrently,
    /// because it fetches.
    ///
    /// An event is acknowledged when the body returns. The position is saved, so that the next run of the
    /// program continues there. An event that is not acknowledged is repeated. Cleaning waits for a feed
    /// as it does for an author.
    ///
    /// - Parameters:
    ///   - feed: One of the tracker's `feeds`. It has one follower at a time.
    ///   - body: Called with one event after the other. If it throws, following ends.
    /// - Throws: `HistoryError` with `.unknownContext` or `.feedInUse`, and what the body throws.
    public nonisolated func follow(
        _ feed: String, _ body: @Sendable (FeedEvent) async throws -> Void
    ) async throws {
        try await control.follow(FeedID(consumer: author, context: feed), body)
    }
}

extension StoreControl {
    /// Passes a feed's events to a body in this process, and acknowledges each. It waits while the store
    /// is not open.
    func follow(_ feed: FeedID, _ body: @Sendable (FeedEvent) async throws -> Void) async throws {
        let client = FeedClient(processID: getpid(), userID: getuid())
        try await seats.occupying(feed, by: client) { wakeUp in
            wakeUp.notify()
            for await _ in wakeUp {
                while let events = try await whileOpen({ try await next(feed) }) {
                    for (event, token) in events {
                        try await body(event)
                        // If the store is no longer open, the event is repeated.
                        let isKnown = try await whileOpen { try await acknowledge(token, feed) }
                        if isKnown == nil { break }
                    }
                }
            }
        }
    }

    /// - Returns: The next events, each with the token that acknowledges it; nil if there are none for
    ///   now.
    private func next(_ feed: FeedID) async throws -> [(FeedEvent, HistoryToken)]? {
        try await withSession { session in
            let keeper = session.feeds
            let (consumer, context) = try keeper.context(of: feed)
            var state = try keeper.state(of: feed)
            if state.expiry == nil, try keeper.hasExpired(state) { state = try keeper.expire(feed) }
            if let expiry = state.expiry { return [(.expired(expiry), expiry.after)] }
            var position = state.position
            while !Task.isCancelled {
                let portion = try keeper.next(
                    for: context, of: consumer, after: position, sharing: session.opened.fetcher)
                guard let portion else { return nil }
                if !portion.transactions.isEmpty {
                    return try portion.transactions.map { transaction in
                        (.transaction(try keeper.source.whole(transaction)), transaction.token)
                    }
                }
                position = portion.end
            }
            return nil
        }
    }

    private func acknowledge(_ token: HistoryToken, _ feed: FeedID) async throws -> HistoryToken {
        try await ask { session in
            defer { session.opened.cleaning.wakeUp.notify() }
            return try session.feeds.acknowledge(token, of: feed)
        }
    }

    /// Nil while the store is not open, or has been replaced or restored. The signal is notified when
    /// that is over.
    private func whileOpen<T>(_ body: () async throws -> T?) async throws -> T? {
        do {
            return try await retryingWhileBusy(body)
        } catch let error as HistoryError
            where [.storeNotOpen, .tokenAhead, .tokenForeign, .tokenExpired].contains(error.code)
        {
            return nil
        }
    }
}
