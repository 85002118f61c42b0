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
}

extension HistoryReader {
    /// Looks at what lies after a position, in bounded time.
    ///
    /// - Throws: `HistoryError`.
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
    ///
    /// - Throws: `HistoryError`.
    package func backlogs(after positions: Set<Int64>, of feeds: [FeedStanding]) async throws
        -> (positions: [Int64: Backlog], feeds: [FeedID: Backlog])
    {
        try await withSession { session in
            try await onPool {
                let reader = try HistoryReader(path: session.store.path, timeout: .milliseconds(200))
                let result = Result {
                    (
                        Dictionary(
                            uniqueKeysWithValues: try positions.map { ($0, try reader.backlog(after: $0)) }),
                        Dictionary(
                            uniqueKeysWithValues: try feeds.map {
                                ($0.feed, try session.feeds.backlog(of: $0, reading: reader))
                            })
                    )
                }
                try reader.close()
                return try result.get()
            }
        }
    }
}

extension FeedKeeper {
    /// What a feed has yet to acknowledge of what is for it, as far as its consumer is.
    ///
    /// - Throws: `HistoryError`.
    fileprivate func backlog(of feed: FeedStanding, reading reader: HistoryReader) throws -> Backlog {
        let (consumer, context) = try context(of: feed.feed)
        let last = try cursor(of: consumer.author)
        var backlog = Backlog()
        guard feed.state.position < last, !feed.isExpired else { return backlog }
        let batch = try reader.outlinedBatch(after: feed.state.position, isPlace: false, through: last)
        let relevant = try relevant(
            batch.transactions, to: context, of: consumer, after: feed.state.position, through: batch.end)
        backlog.entries = relevant.map { .init(author: $0.author, timestamp: $0.timestamp) }
        backlog.isWhole = batch.end >= last
        return backlog
    }
}
