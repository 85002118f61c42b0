import HistoryBase
import HistoryControl

/// Keeps a feed connected, and passes on each item once.
struct FeedConnection {
    private let feed: Feed
    private var order = FeedOrder()

    init(_ feed: Feed) { self.feed = feed }

    /// - Throws: Errors that waiting does not resolve, and `CancellationError`.
    mutating func run(_ handOver: (FeedItem) -> Void) async throws {
        var pause = ReconnectPause(feed: feed)
        while true {
            do {
                var splitter = LineSplitter()
                try await feed.socket.client.send(.feed(feed.request)) { bytes in
                    var bytes = bytes
                    // If the daemon has lost its position (its state was removed, or restored from a backup),
                    // it sends acknowledged items again. The program does not see them again; the connection
                    // acknowledges them once more instead, so that the feed's window does not stay full.
                    var again: HistoryToken?
                    while let (line, _) = splitter.next(&bytes) {
                        if line.isEmpty { continue }
                        pause = ReconnectPause(feed: feed)
                        let line = try FeedLine(line)
                        let acknowledged = feed.acknowledged.withLock { $0 }
                        if let item = order.take(line, acknowledged: acknowledged) {
                            handOver(item)
                        } else if let token = line.wholeToken, token.isReached(by: acknowledged) {
                            again = token
                        }
                    }
                    if let again { try await feed.send(again) }
                }
                try await pause.wait()
            } catch {
                try await pause.wait(after: error)
            }
        }
    }
}

/// Selects the new lines: after a reconnect the daemon sends again everything that was not acknowledged.
struct FeedOrder {
    /// The last whole transaction that was passed on, or the position at which the feed started over.
    private var last: HistoryToken?
    private var expiry: Expiry?

    /// - Parameter acknowledged: The last token that the program acknowledged since it last received a loss.
    mutating func take(_ line: FeedLine, acknowledged: HistoryToken? = nil) -> FeedItem? {
        switch line {
        case .begins(let token):
            guard let last, last.store != token.store else { return nil }
            return take(Expiry(reason: .replaced, lost: last, after: token))
        case .expired(let expiry) where expiry.reason == .recreated:
            // It is ordered among the transactions.
            if expiry.after.isReached(by: last) { return nil }
            last = expiry.after
            return .expired(expiry)
        case .expired(let expiry):
            // If something after it was acknowledged, history was lost once more.
            if let acknowledged, acknowledged.number > expiry.after.number { self.expiry = nil }
            return take(expiry)
        case .transaction(let transaction):
            if transaction.token.isReached(by: last) { return nil }
            if transaction.isWhole { last = transaction.token }
            return .transaction(transaction)
        case .other: return nil
        }
    }

    private mutating func take(_ expiry: Expiry) -> FeedItem? {
        if expiry == self.expiry { return nil }
        self.expiry = expiry
        last = expiry.after
        return .expired(expiry)
    }
}

extension FeedLine {
    /// The token that acknowledges the line, if it is ordered among the transactions.
    fileprivate var wholeToken: HistoryToken? {
        switch self {
        case .transaction(let transaction): transaction.isWhole ? transaction.token : nil
        case .expired(let expiry): expiry.reason == .recreated ? expiry.after : nil
        case .begins, .other: nil
        }
    }
}

extension HistoryToken {
    /// Whether a token of the same store is at or after this one.
    fileprivate func isReached(by token: HistoryToken?) -> Bool {
        token.map { store == $0.store && number <= $0.number } ?? false
    }
}
