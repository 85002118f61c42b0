import HistoryControl
import Logging
import PersistentHistory

/// Programs that are connected to feeds.
extension ControlHandler {
    /// Sends a program what its feed has for it, until it goes.
    func feed(_ request: FeedRequest, _ peer: Peer, _ response: ControlResponse) async throws {
        let (store, feed) = try await feed(request)
        let fields: Logger.Metadata = [
            "store": "\(store.name)", "consumer": "\(feed.consumer)", "context": "\(feed.context)",
        ]
        let isConnected = Locked(false)
        defer {
            if isConnected.withLock({ $0 }) {
                logger.info("\(peer) has left the feed \"\(feed)\".", metadata: fields)
            }
        }
        try await store.control.feed(
            feed, to: peer.processID,
            begun: {
                isConnected.withLock { $0 = true }
                logger.info("\(peer) is connected to the feed \"\(feed)\".", metadata: fields)
                try await response.beginLines()
            },
            send: { try await response.write($0) })
    }

    func acknowledge(_ request: FeedRequest, _ text: String) async throws -> AcknowledgeReport {
        let (store, feed) = try await feed(request)
        let cursor = try await store.control.acknowledge(try Self.token(text), of: feed)
        return AcknowledgeReport(
            store: store.name, consumer: feed.consumer, context: feed.context, cursor: cursor.description)
    }

    /// How many programs are connected to feeds.
    var listeners: Int { get async { await engine.stores.reduce(0) { $0 + $1.control.listeners } } }

    private func feed(_ request: FeedRequest) async throws -> (RunningStore, FeedID) {
        let store = try await self.store(request.store, with: request.consumer)
        let feeds = store.served.consumers.filter { $0.author == request.consumer }.flatMap(\.feeds).map(\.name)
        guard feeds.contains(request.context) else {
            throw ControlError(
                .unknownContext,
                "\"\(request.consumer)\" of store \"\(store.name)\" has no feed \"\(request.context)\": there are \(feeds.quotedList)."
            )
        }
        return (store, FeedID(consumer: request.consumer, context: request.context))
    }
}
