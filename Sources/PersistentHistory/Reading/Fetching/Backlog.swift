import GRDB

/// The history after a position: the transactions that a consumer or feed has yet to receive.
package struct Backlog: Sendable {
    /// One transaction.
    package struct Entry: Sendable {
        package let author: String?
        package let timestamp: HistoryTimestamp
    }

    /// In commit order.
    package internal(set) var entries: [Entry] = []
    /// Whether the entries are complete. A long backlog is not read to its end.
    package internal(set) var isWhole = true

    /// Reading ends after this many changes.
    static let limit = 10_000
    /// After this many changes that are not for a feed, the next look continues from there.
    static let feedLimit: Int64 = 100_000
}

extension HistoryReader {
    /// Reads the backlog after a position of a store, in bounded time.
    package static func backlog(of path: String, after position: Int64) throws -> Backlog {
        try HistoryReader(path: path, timeout: .milliseconds(500)).backlog(after: position)
    }

    /// Reads the backlog after a position, in bounded time.
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
