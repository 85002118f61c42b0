internal import Glibc

/// What a feed brings to the program that follows it.
public enum FeedEvent: Sendable, Hashable {
    /// History was lost, or the feed is new and history was deleted before: what the program made of the changes so
    /// far is to be made again from the store. What follows comes after `after`.
    case expired(Expiry)
    /// A transaction of somebody else that merge hooks let through.
    case transaction(HistoryTransaction)
}

extension PersistentHistoryTracker {
    /// Follows one of the tracker's feeds until the task is cancelled: beside `run()`, which fetches.
    ///
    /// An event is acknowledged when the body returns, and the position is saved, so that the next run of the program
    /// continues there. One that is not acknowledged comes again. History waits for a feed as it does for an author.
    ///
    /// - Parameters:
    ///   - feed: One of the tracker's `feeds`. One follower at a time has it.
    ///   - body: Called with one event after the other; what it throws ends the following.
    /// - Throws: `HistoryError` with `.unknownContext` or `.feedInUse`, and what the body throws.
    public nonisolated func follow(
        _ feed: String, _ body: @Sendable (FeedEvent) async throws -> Void
    ) async throws {
        try await control.follow(FeedID(consumer: author, context: feed), body)
    }
}

extension StoreControl {
    /// Hands a feed's events to a body in this process, and acknowledges each. While the store is not open it waits.
    func follow(_ feed: FeedID, _ body: @Sendable (FeedEvent) async throws -> Void) async throws {
        let client = FeedClient(processID: getpid(), userID: getuid())
        try await seats.occupying(feed, by: client) { wakeUp in
            wakeUp.notify()
            for await _ in wakeUp {
                while let events = try await whileOpen({ try await next(feed) }) {
                    for (event, token) in events {
                        try await body(event)
                        // Where the store is not open any more, the event comes again.
                        let isKnown = try await whileOpen { try await acknowledge(token, feed) }
                        if isKnown == nil { break }
                    }
                }
            }
        }
    }

    /// - Returns: What is next, each with the token that acknowledges it; nil where there is nothing for now.
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

    /// Nil while the store is not open, or is another or an older one by now: the signal is notified when that has ended.
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
