/// Reports on an open store's history.
extension StoreControl {
    /// A report waits no longer than this for the store's disk.
    private var backlogTimeout: Duration { .milliseconds(500) }

    /// The backlog after each position, and that of some feeds.
    ///
    /// It is read through a separate connection, so deliveries do not wait for it.
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

    /// The estimated size of the open store's history in bytes.
    package func historySize() async throws -> Int64 {
        let positions = try await positions()
        return try await withSession(awakening: false) { session in
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
