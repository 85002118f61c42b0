/// Keeps the checkpoints of a store's feeds.
///
/// A feed is never ahead of its consumer: what it receives has been through the merge hooks. So the
/// consumer's checkpoint also proves that the store is the feed's.
struct FeedKeeper: Sendable {
    let store: ServedStore
    var source: any HistorySource
    let state: StateDatabase
    let reporter: any PipelineReporter

    /// Creates checkpoints for new feeds, and removes those of feeds that are gone.
    ///
    /// A new feed begins where the history begins, and is notified if older history was deleted. A new
    /// feed of a consumer that is configured to begin at the end begins where its consumer is.
    func begin() throws {
        for consumer in store.consumers {
            for context in try state.feeds.keepOnly(consumer.feeds.map(\.name), of: consumer.author) {
                reporter.report(.feedForgotten(consumer: consumer.author, context: context))
            }
            if consumer.feeds.isEmpty { continue }
            try state.feeds.forgetUnmerged(of: consumer.author, after: try cursor(of: consumer.author))
            for context in consumer.feeds {
                let feed = FeedID(consumer: consumer.author, context: context.name)
                guard try state.feeds.state(of: feed) == nil else { continue }
                let beginsNow = consumer.startAt == .newest
                let isLate = try !beginsNow && source.oldestToken().number > 0
                let number = isLate || beginsNow ? try newStart(of: consumer.author) : 0
                try state.feeds.begin(feed, at: number, isLate ? .late : nil)
                reporter.report(
                    .feedBegan(
                        consumer: consumer.author, context: context.name,
                        at: HistoryToken(store: source.storeID, number: number)))
            }
        }
    }

    /// The position up to which the consumer, its hooks and its merge are done: feeds get nothing after
    /// it. A consumer that was moved back counts with the furthest position it has reached.
    func cursor(of consumer: String) throws -> Int64 { try state.reached(consumer) }

    /// After a loss of history, the program reads the store and continues here.
    private func newStart(of consumer: String) throws -> Int64 {
        max(try cursor(of: consumer), try source.oldestToken().number)
    }

    func context(of feed: FeedID) throws -> (consumer: Consumer, context: FeedContext) {
        for consumer in store.consumers where consumer.author == feed.consumer {
            if let context = consumer.feeds.first(where: { $0.name == feed.context }) {
                return (consumer, context)
            }
        }
        throw HistoryError.unknownContext(feed.context, "feed", of: feed.consumer)
    }

    func state(of feed: FeedID) throws -> FeedState {
        _ = try context(of: feed)
        guard let current = try state.feeds.state(of: feed) else {
            throw HistoryError(.stateUnusable, "The feed \"\(feed)\" has no position in \"\(state.path)\".")
        }
        return current
    }

    /// Whether history was deleted that a feed has not received.
    func hasExpired(_ current: FeedState) throws -> Bool {
        current.position < (try source.oldestToken().number)
    }

    /// Lets a feed that has lost history start over.
    func expire(_ feed: FeedID) throws -> FeedState {
        try state.feeds.expire(feed, .expired, at: try newStart(of: feed.consumer))
        let current = try self.state(of: feed)
        if let expiry = current.expiry {
            reporter.report(.feedExpired(consumer: feed.consumer, context: feed.context, expiry))
        }
        return current
    }

    /// Checks that a program acknowledges only what it was sent.
    ///
    /// - Parameter sent: The last token that was sent; nil if there was none.
    /// - Throws: `HistoryError` with `.tokenNotSent`.
    func check(_ token: HistoryToken, of feed: FeedID, sent: HistoryToken?) throws {
        // The store may have been replaced since.
        let sent = sent.flatMap { $0.store == source.storeID ? $0.number : nil } ?? 0
        let last = max(sent, try self.state(of: feed).position)
        guard token.store == source.storeID, token.number > last else { return }
        throw HistoryError(
            .tokenNotSent,
            "The feed \"\(feed)\" has sent this user nothing after \(HistoryToken(store: source.storeID, number: last)): \(token) cannot be acknowledged.",
            hint:
                "Connect to the feed and acknowledge what it sends. After a restart, the daemon sends again what was not acknowledged."
        )
    }

    /// Records what a feed's program has processed.
    ///
    /// - Returns: The feed's position.
    /// - Throws: `HistoryError`, with `.tokenForeign` or `.tokenAhead` if the token cannot have been
    ///   sent.
    func acknowledge(_ token: HistoryToken, of feed: FeedID) throws -> HistoryToken {
        let current = try self.state(of: feed)
        guard token.store == source.storeID else { throw HistoryError.foreign(token, to: source.storeID) }
        // The feed may have started over before its consumer does.
        let last = max(try cursor(of: feed.consumer), current.position)
        guard token.number <= last else {
            throw HistoryError(
                .tokenAhead,
                "The token \(token) is newer than \(HistoryToken(store: source.storeID, number: last)), which is the last that the feed \"\(feed)\" can have sent.",
                hint: "Acknowledge a token that the feed has sent.")
        }
        // Only the consumer's checkpoint has a fingerprint. It proves the feed's, if the feed is not
        // ahead of it even after a crash.
        try state.cursors.flush()
        try state.feeds.acknowledge(feed, through: token.number)
        let moved = HistoryToken(store: source.storeID, number: max(token.number, current.position))
        if moved.number > current.position || current.expiry != nil {
            reporter.report(.feedMoved(consumer: feed.consumer, context: feed.context, to: moved))
        }
        return moved
    }

    // MARK: What is for a feed

    /// Some of the transactions that are for a feed.
    struct Portion: Sendable {
        let transactions: [HistoryTransaction]
        /// How far the history was read.
        let end: Int64
        /// The rows of the objects, if the feed has them.
        let values: RowValues?
    }

    /// - Parameter batch: What was read after a position, at most up to the consumer.
    func relevant(
        _ batch: HistoryBatch, to context: FeedContext, of consumer: Consumer, after number: Int64,
        through last: Int64
    ) throws -> [HistoryTransaction] {
        let unmerged = try state.feeds.unmerged(of: consumer.author, after: number, through: last)
        return batch.transactions.filter { transaction in
            (consumer.rule.delivers(transaction, to: consumer.author) || !transaction.recreated.isEmpty)
                && context.wants(transaction, batch.values)
                && !unmerged.contains { $0.contains(transaction.token.number) }
        }
    }

    /// Reads on from a position.
    ///
    /// - Returns: Nil if there is nothing yet.
    func next(
        for context: FeedContext, of consumer: Consumer, after number: Int64, sharing fetcher: SharedFetcher
    ) throws -> Portion? {
        let last = try cursor(of: consumer.author)
        guard number < last else { return nil }
        let batch: HistoryBatch
        if let known = fetcher.known(after: number, through: last, values: context.wantedRows) {
            batch = known
        } else {
            batch = try source.outlinedBatch(
                after: number, through: last, changes: 1000, values: context.wantedRows)
        }
        let end = batch.end > number ? batch.end : last
        return Portion(
            transactions: try relevant(
                batch, to: context, of: consumer, after: number, through: end), end: end,
            values: batch.values)
    }

    /// Moves feeds over what is not for them, so that they do not hold back such history. This runs
    /// before each cleanup, not with each commit.
    func skipWhatIsNotSent() throws {
        // They must not be ahead of their consumers after a crash either.
        let saved = try state.cursors.saved()
        for consumer in store.consumers where !consumer.feeds.isEmpty {
            let replayed = try state.replays.last(of: consumer.author)?.through ?? 0
            for context in consumer.feeds {
                try skipWhatIsNotSent(
                    context, consumer, through: max(saved[consumer.author]?.position ?? 0, replayed))
            }
        }
    }

    private func skipWhatIsNotSent(_ context: FeedContext, _ consumer: Consumer, through last: Int64) throws {
        let feed = FeedID(consumer: consumer.author, context: context.name)
        guard let current = try state.feeds.state(of: feed), current.expiry == nil,
            try !hasExpired(current)
        else { return }
        var number = current.position
        // The first transaction that a feed has not received is usually for it.
        var size = 100
        while number < last {
            let batch = try source.outlinedBatch(
                after: number, through: last, changes: size, values: context.wantedRows)
            let end = batch.end > number ? batch.end : last
            let first = try relevant(
                batch, to: context, of: consumer, after: number, through: end
            ).first
            if let first {
                number =
                    batch.transactions.last { $0.token.number < first.token.number }?.token.number ?? number
                break
            }
            number = end
            size = HistoryReader.batchSize
        }
        if number > current.position { try state.feeds.skip(feed, from: current.position, to: number) }
    }
}

extension FeedKeeper {
    /// The unacknowledged transactions for a feed, as far as its consumer is.
    ///
    /// A batch without anything for the feed does not count. The feed moves over it, so that the next
    /// look begins after it, and reading continues up to a limit.
    func backlog(of feed: FeedStanding) throws -> Backlog {
        var backlog = Backlog()
        if feed.isExpired { return backlog }
        let (consumer, context) = try context(of: feed.feed)
        let last = try cursor(of: consumer.author)
        var position = feed.state.position
        while position < last, position - feed.state.position < Backlog.feedLimit {
            let batch = try source.outlinedBatch(
                after: position, isPosition: false, through: last, changes: HistoryReader.batchSize,
                values: context.wantedRows
            )
            let end = batch.end > position ? batch.end : last
            let relevant = try relevant(
                batch, to: context, of: consumer, after: position, through: end)
            backlog.entries = relevant.map { .init(author: $0.author, timestamp: $0.timestamp) }
            backlog.isWhole = end >= last
            if !relevant.isEmpty || backlog.isWhole { break }
            position = end
        }
        if position > feed.state.position {
            // It must not be ahead of its consumer after a crash either.
            let replayed = try state.replays.last(of: consumer.author)?.through ?? 0
            let passed = min(
                position, max(try state.cursors.saved()[consumer.author]?.position ?? 0, replayed))
            try state.feeds.skip(feed.feed, from: feed.state.position, to: max(passed, feed.state.position))
        }
        return backlog
    }
}
