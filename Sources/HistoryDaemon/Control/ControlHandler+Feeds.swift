import HistoryControl
import Logging
import PersistentHistory

/// Clients of feeds.
extension ControlHandler {
    /// Sends a client what its feed has for it, until the client disconnects.
    func feed(_ request: FeedRequest, _ peer: Peer, _ response: ControlResponse) async throws {
        let (store, feed) = try await feed(request)
        try await admit(peer, to: feed, of: store)
        let fields: Logger.Metadata = [
            "store": "\(store.name)", "consumer": "\(feed.consumer)", "context": "\(feed.context)",
        ]
        let isConnected = Locked(false)
        defer {
            if isConnected.withLock({ $0 }) {
                // A client may connect and disconnect in an endless loop.
                repeatedLines.log("\(feed) of \(store.name) was left", by: peer) { more in
                    logger.info("\(peer) has left the feed \"\(feed)\"\(more).", metadata: fields)
                }
            }
        }
        try await store.control.feed(
            feed, to: FeedClient(processID: peer.processID, userID: peer.userID),
            begun: {
                isConnected.withLock { $0 = true }
                repeatedLines.log("\(feed) of \(store.name)", by: peer) { more in
                    logger.info("\(peer) is connected to the feed \"\(feed)\"\(more).", metadata: fields)
                }
                try await response.beginLines()
            },
            send: { try await response.write($0) })
    }

    /// Admits a peer to a feed with values of rows only if it could read them in the store. Every peer may have
    /// a feed with object ids only.
    private func admit(_ peer: Peer, to feed: FeedID, of store: RunningStore) async throws {
        let context = store.served.consumers.filter { $0.author == feed.consumer }.flatMap(\.feeds)
            .first { $0.name == feed.context }
        guard context?.hasValues ?? true, await !peer.mayRead(store.served.path) else { return }
        throw ControlError(
            .notPermitted,
            "The feed \"\(feed)\" carries values of rows, and \(peer) may not read the store \"\(store.served.path)\". Give that user the right to read the file, and to pass through its folders."
        )
    }

    /// Acknowledges a position. Only root and the daemon's user may skip items that the feed has not sent.
    func acknowledge(_ request: FeedRequest, _ text: String, _ peer: Peer) async throws -> PositionReport {
        let (store, feed) = try await feed(request)
        let cursor = try await store.control.acknowledge(
            try Self.token(text), of: feed, by: peer.maySteer ? nil : peer.userID)
        return PositionReport(
            store: store.name, consumer: feed.consumer, context: feed.context, cursor: cursor.description)
    }

    /// How many clients can be connected to feeds.
    var feedCount: Int {
        get async { await engine.stores.flatMap(\.served.consumers).reduce(0) { $0 + $1.feeds.count } }
    }

    private func feed(_ request: FeedRequest) async throws -> (RunningStore, FeedID) {
        let store = try await self.store(request.store, with: request.consumer)
        let feeds = store.served.consumers.filter { $0.author == request.consumer }.flatMap(\.feeds).map(\.name)
        guard feeds.contains(request.context) else {
            throw ControlError(
                .unknownContext,
                "\"\(request.consumer)\" of store \"\(store.name)\" has no feed \"\(request.context)\". Feeds: \(feeds.quotedList)."
            )
        }
        return (store, FeedID(consumer: request.consumer, context: request.context))
    }
}
