import GRDB

/// What lies in a history after a position: the transactions that somebody there has yet to have.
package struct Backlog: Sendable {
    /// One transaction.
    package struct Entry: Sendable {
        package let author: String?
        package let timestamp: HistoryTimestamp
    }

    /// In the order of their commits.
    package internal(set) var entries: [Entry] = []
    /// Whether these are all; a long backlog is not read to its end.
    package internal(set) var isWhole = true

    /// After so many changes reading ends.
    static let limit = 10_000
    /// After so many changes that are not for a feed, the next look goes on.
    static let feedLimit: Int64 = 100_000
}

extension HistoryReader {
    /// Looks at what lies after a position of a store, in bounded time.
    package static func backlog(of path: String, after position: Int64) throws -> Backlog {
        try HistoryReader(path: path, timeout: .milliseconds(500)).backlog(after: position)
    }

    /// Looks at what lies after a position, in bounded time.
    func backlog(after position: Int64) throws -> Backlog {
        try read { db in
            var backlog = Backlog()
            var last: DatabaseValue?
            var count = 0
            let rows = try Row.fetchCursor(
                try db.cachedStatement(
                    sql: "SELECT origin FROM historyd_change WHERE id > ? AND kind & 3 <> 3 ORDER BY id LIMIT ?"
                ), arguments: [position, Backlog.limit])
            while let row = try rows.next() {
                count += 1
                let value = row[0] as DatabaseValue
                if value == last { continue }
                last = value
                let origin = Origin(value)
                backlog.entries.append(.init(author: origin.author, timestamp: origin.timestamp))
            }
            backlog.isWhole = count < Backlog.limit
            return backlog
        }
    }
}

extension StoreControl {
    /// What lies after each of some positions, and what there is for some feeds.
    ///
    /// It is read by a connection of its own, so that the deliveries do not wait for it.
    package func backlogs(after positions: Set<Int64>, of feeds: [FeedStanding]) async throws
        -> (positions: [Int64: Backlog], feeds: [FeedID: Backlog])
    {
        try await withSession { session in
            let backlogs = try await session.opened.reports.perform(within: .seconds(1)) {
                let reader = try session.source.another(timeout: .milliseconds(200))
                let keeper = FeedKeeper(
                    store: session.feeds.store, source: reader, state: session.feeds.state,
                    reporter: session.feeds.reporter)
                let result = Result {
                    (
                        Dictionary(
                            uniqueKeysWithValues: try positions.map { ($0, try reader.backlog(after: $0)) }),
                        Dictionary(
                            uniqueKeysWithValues: try feeds.map { ($0.feed, try keeper.backlog(of: $0)) })
                    )
                }
                try reader.close()
                return try result.get()
            }
            guard let backlogs else { throw session.unresponsive(.seconds(1)) }
            return backlogs
        }
    }
}

extension FeedKeeper {
    /// What a feed has yet to acknowledge of what is for it, as far as its consumer is.
    ///
    /// A batch that has nothing for it says nothing of its lag: the feed moves over it, so that the next look begins
    /// after it, and reading goes on, up to a limit.
    func backlog(of feed: FeedStanding) throws -> Backlog {
        var backlog = Backlog()
        if feed.isExpired { return backlog }
        let (consumer, context) = try context(of: feed.feed)
        let last = try cursor(of: consumer.author)
        var position = feed.state.position
        while position < last, position - feed.state.position < Backlog.feedLimit {
            let batch = try source.outlinedBatch(
                after: position, isPosition: false, through: last, changes: HistoryReader.batchSize, values: nil
            )
            let end = batch.end > position ? batch.end : last
            let relevant = try relevant(
                batch.transactions, to: context, of: consumer, after: position, through: end)
            backlog.entries = relevant.map { .init(author: $0.author, timestamp: $0.timestamp) }
            backlog.isWhole = end >= last
            if !relevant.isEmpty || backlog.isWhole { break }
            position = end
        }
        if position > feed.state.position {
            // Not ahead of its consumer after a crash either.
            let passed = min(position, try state.cursors.saved()[consumer.author]?.position ?? 0)
            try state.feeds.skip(feed.feed, from: feed.state.position, to: max(passed, feed.state.position))
        }
        return backlog
    }
}
