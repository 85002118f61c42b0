import GRDB
import GRDBSQLite

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
    /// A report waits no longer, whatever the store's disk does.
    private var backlogTimeout: Duration { .milliseconds(500) }

    /// What lies after each of some positions, and what there is for some feeds.
    ///
    /// It is read by a connection of its own, so that the deliveries do not wait for it.
    package func backlogs(after positions: Set<Int64>, of feeds: [FeedStanding]) async throws
        -> (positions: [Int64: Backlog], feeds: [FeedID: Backlog])
    {
        try await withSession { session in
            let backlogs = try await session.opened.reports.perform(within: backlogTimeout) {
                try session.source.reading(timeout: .milliseconds(200)) { reader in
                    var keeper = session.feeds
                    keeper.source = reader
                    return (
                        Dictionary(
                            uniqueKeysWithValues: try positions.map { ($0, try reader.backlog(after: $0)) }),
                        Dictionary(
                            uniqueKeysWithValues: try feeds.map { ($0.feed, try keeper.backlog(of: $0)) })
                    )
                }
            }
            guard let backlogs else { throw session.unresponsive(backlogTimeout) }
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

/// The size of a store's history, estimated: SQLite keeps no size of a table, and reading a whole history to add it up
/// is not for something that is asked every few seconds.
///
/// Of the changes, spread evenly over the history, some are weighed. The estimate is their mean, times how many changes
/// there are.
final class HistorySize: Sendable {
    /// How many changes are weighed.
    static let samples = 64
    /// No more are weighed after so many bytes: tombstones may be large.
    static let mostBytes: Int64 = 1 << 20
    /// What SQLite stores for a row beside its values: lengths, number, types, the pointer to its cell.
    static let overhead: Int64 = 12

    private let known = Locked<(floor: Int64, newest: Int64, bytes: Int64)?>(nil)

    /// The estimate, which is made again only if the history is another one.
    func bytes(in path: String, floor: Int64, newest: Int64) throws -> Int64 {
        if let known = known.withLock({ $0 }), known.floor == floor, known.newest == newest {
            return known.bytes
        }
        // By a connection of its own, so that deliveries do not wait for it.
        let bytes = try HistoryReader.reading(path, timeout: .milliseconds(200)) { db in
            try Self.estimate(db, floor: floor, newest: newest)
        }
        known.withLock { $0 = (floor, newest, bytes) }
        return bytes
    }

    /// The positions after which a change is weighed, in an order in which each part of them is spread as evenly.
    static func positions(floor: Int64, newest: Int64) -> [Int64] {
        let (count, step) = (newest - floor, (newest - floor) / Int64(samples))
        guard step > 0 else { return count > 0 ? Array(floor..<newest) : [] }
        // 37 has no divisor in common with 64.
        return (0..<samples).map { floor + step * Int64($0 * 37 % samples) }
    }

    private static func estimate(_ db: Database, floor: Int64, newest: Int64) throws -> Int64 {
        var (count, bytes): (Int64, Int64) = (0, 0)
        for position in positions(floor: floor, newest: newest) where bytes < mostBytes {
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql: """
                        SELECT ifnull(length(CAST(origin AS BLOB)), 0) + ifnull(length(CAST(object AS BLOB)), 0)
                            + ifnull(length(CAST(detail AS BLOB)), 0)
                        FROM historyd_change WHERE id > ? ORDER BY id LIMIT 1
                        """), arguments: [position])
            guard let weight = row.flatMap({ $0[0] as Int64? }) else { continue }
            count += 1
            bytes += weight + overhead
        }
        if count == 0 { return 0 }
        // A damaged store may have any numbers.
        let (product, overflows) = (bytes / count).multipliedReportingOverflow(by: newest - floor)
        return overflows ? .max : product
    }
}

extension StoreControl {
    /// The size of the open store's history in bytes, estimated.
    package func historySize() async throws -> Int64 {
        let positions = try await positions()
        return try await withSession { session in
            let (path, size) = (session.store.path, session.opened.size)
            guard session.source.recorder != nil else { throw HistoryError.onlyRead(path) }
            let bytes = try await session.opened.reports.perform(within: StoreSession.answerTimeout) {
                try size.bytes(in: path, floor: positions.oldest.number, newest: positions.newest.number)
            }
            guard let bytes else { throw session.unresponsive(StoreSession.answerTimeout) }
            return bytes
        }
    }
}

/// Counts the history that is kept for ever, because its authors are neither delivered nor cleaned.
///
/// What was counted stays, so that only what is new is read.
final class UnlistedCount: Sendable {
    private let counted = Locked<(position: Int64, changes: Int)>((0, 0))

    /// Counts on from the last time.
    func count(in path: String, _ rule: DeliveryRule) throws -> Int {
        // By a connection of its own, so that neither waits for the other.
        try HistoryReader.reading(path) { db in
            try counted.withLock { counted in
                try Self.count(&counted, rule, db)
                return counted.changes
            }
        }
    }

    private static func count(
        _ counted: inout (position: Int64, changes: Int), _ rule: DeliveryRule, _ db: Database
    ) throws {
        var last: (origin: DatabaseValue, isUnlisted: Bool)?
        var authorship = Authorship.undeclared
        let rows = try Row.fetchCursor(
            db, sql: "SELECT id, origin FROM historyd_change WHERE id > ? AND kind & 3 <> 3 ORDER BY id",
            arguments: [counted.position])
        while let row = try rows.next() {
            let origin: DatabaseValue = row[1]
            if last?.origin != origin {
                authorship = Origin(origin, like: authorship).authorship
                last = (origin, rule.isUnlisted(authorship.author))
            }
            counted.position = row[0]
            if last?.isUnlisted == true { counted.changes += 1 }
        }
    }
}
