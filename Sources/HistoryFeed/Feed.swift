public import HistoryBase
import HistoryControl
public import Logging

/// The client of a feed. It delivers transactions of other authors as they are committed, after those that were
/// committed while the program was not connected.
///
/// ```swift
/// let feed = Feed(consumer: "MainApp", context: "live")
/// for try await item in feed {
///     switch item {
///     case .transaction(let transaction): refresh(transaction.updatedObjectIDs)
///     case .expired: reloadEverything()
///     }
///     try await feed.acknowledge(item)
/// }
/// ```
///
/// An acknowledged item is not delivered again, to any program. An item that was not acknowledged is delivered again
/// to the next program that connects. If the daemon is restarted, the feed reconnects and still delivers each item
/// once. The daemon sends no more than the feed's `window` ahead of the last acknowledgement, which bounds the
/// memory of the client.
///
/// A feed serves one program, and one loop in that program.
public struct Feed: AsyncSequence, Sendable {
    /// What the feed iterates over.
    public typealias Element = FeedItem

    /// The control socket of the daemon that runs as the system's service.
    public static let systemSocket = ControlSocket.system

    let socket: FeedSocket
    let request: FeedRequest
    let logger: Logger
    /// The last token that the program acknowledged since it last received a loss; see `FeedConnection`.
    let acknowledged = Locked<HistoryToken?>(nil)

    /// - Parameters:
    ///   - consumer: The author under which the program writes. The feed does not deliver this author's changes.
    ///   - context: The consumer's context, of kind `feed`.
    ///   - store: The store's name in the daemon's configuration; needed if several stores have such a consumer.
    ///   - socketPath: The daemon's control socket; nil for the daemon that `historyctl` would talk to: the one
    ///     that `RUNTIME_DIRECTORY` or `STATE_DIRECTORY` names, else the user's own, else the system's.
    ///   - logger: Reports that the daemon cannot be reached, after the first attempt and then every five
    ///     minutes.
    public init(
        consumer: String, context: String, store: String? = nil, socketPath: String? = nil,
        logger: Logger = Logger(label: "historyd")
    ) {
        socket = FeedSocket(socketPath)
        request = FeedRequest(store: store, consumer: consumer, context: context)
        self.logger = logger
    }

    /// Tells the daemon that the program has processed everything up to a token, and returns when the daemon
    /// has saved that. If the daemon does not run, the call waits for it.
    ///
    /// If the store was replaced or restored since, the token is no longer valid. That is not an error: the
    /// next item, `.expired`, says what to do.
    ///
    /// - Throws: `HistoryError` if the daemon refuses or this user may not use its socket, `CancellationError`.
    public func acknowledge(_ token: HistoryToken) async throws {
        acknowledged.withLock { $0 = token }
        try await send(token)
    }

    func send(_ token: HistoryToken) async throws {
        var pause = ReconnectPause(feed: self)
        while true {
            do {
                _ = try await socket.client.send(.acknowledge(request, token: token.description))
                return
            } catch let error as ControlError where error.code == .tokenForeign || error.code == .tokenAhead {
                return
            } catch {
                try await pause.wait(after: error)
            }
        }
    }

    /// Acknowledges an item and all items before it. If a transaction comes in parts, only the last part
    /// acknowledges it.
    public func acknowledge(_ item: FeedItem) async throws {
        if let token = item.token { try await acknowledge(token) }
    }

    /// Connects to the daemon.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Connects when it is created, and ends the connection when it is released.
    public struct Iterator: AsyncIteratorProtocol {
        private let feed: Feed
        private var items: AsyncThrowingStream<FeedItem, any Error>.Iterator

        fileprivate init(_ feed: Feed) {
            self.feed = feed
            let stream = AsyncThrowingStream<FeedItem, any Error> { continuation in
                // Not a child task: it ends with the stream, which ends with its iterator.
                let connecting = Task {
                    do {
                        var connection = FeedConnection(feed)
                        try await connection.run { continuation.yield($0) }
                    } catch {
                        continuation.finish(throwing: error is CancellationError ? nil : error)
                    }
                }
                continuation.onTermination = { _ in connecting.cancel() }
            }
            items = stream.makeAsyncIterator()
        }

        /// Waits for the next item: see `next(isolation:)`.
        public mutating func next() async throws -> FeedItem? { try await next(isolation: #isolation) }

        /// Waits for the next item.
        ///
        /// - Returns: Nil when the task is cancelled.
        /// - Throws: `HistoryError` if there is no such feed (any more) or this user may not use the daemon's
        ///   socket.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> FeedItem? {
            let item = try await items.next(isolation: actor)
            // Numbers may start over: earlier acknowledgements say nothing about the next items.
            if case .expired(let expiry)? = item, expiry.reason != .recreated {
                feed.acknowledged.withLock { $0 = nil }
            }
            return item
        }
    }
}
