import HistoryControl
public import PersistentHistory

/// A program's end of a feed: what other authors commit, as they commit it, after everything that they
/// committed while the program was away.
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
/// What was acknowledged does not come again, to any program. What was not comes again to the next program that
/// connects. If the daemon is restarted, the feed reconnects and still delivers each item once. The daemon sends
/// no more than the feed's `window` ahead of the last acknowledgement, which bounds the memory that this takes.
///
/// A feed is for one program, and within it for one loop.
public struct Feed: AsyncSequence, Sendable {
    /// What the feed iterates over.
    public typealias Element = FeedItem

    /// The control socket of the daemon that runs as the system's service.
    public static let systemSocket = ControlSocket.system

    let client: ControlClient
    let request: FeedRequest
    /// The last that the program acknowledged, since it was last told of a loss: see `FeedConnection`.
    let acknowledged = Locked<HistoryToken?>(nil)

    /// - Parameters:
    ///   - consumer: The author under which the program writes, and whose changes it is not told of.
    ///   - context: The consumer's context, of kind `feed`.
    ///   - store: The store's name in the daemon's configuration, where several have such a consumer.
    ///   - socketPath: The daemon's control socket.
    public init(
        consumer: String, context: String, store: String? = nil, socketPath: String = Feed.systemSocket
    ) {
        client = ControlClient(socketPath: socketPath)
        request = FeedRequest(store: store, consumer: consumer, context: context)
    }

    /// Tells the daemon that you are done with everything up to a token, and returns when it has saved that.
    /// While there is no daemon, it waits for one.
    ///
    /// A token of a store that has been replaced or restored since means nothing any more. That is not an error:
    /// the next item, `.expired`, says what to do.
    ///
    /// - Throws: ``FeedError`` if the daemon refuses or this user may not use its socket, `CancellationError`.
    public func acknowledge(_ token: HistoryToken) async throws {
        acknowledged.withLock { $0 = token }
        try await send(token)
    }

    func send(_ token: HistoryToken) async throws {
        var pause = ReconnectPause()
        while true {
            do {
                _ = try await client.send(.acknowledge(request, token: token.description))
                return
            } catch let error as ControlError where error.code == .tokenForeign || error.code == .tokenAhead {
                return
            } catch {
                try await pause.wait(after: error)
            }
        }
    }

    /// Acknowledges an item and all before it. Of a transaction that comes in parts, the last part does so.
    public func acknowledge(_ item: FeedItem) async throws {
        if let token = item.token { try await acknowledge(token) }
    }

    /// Connects to the daemon.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Connects when it is made, and ends the connection when it goes.
    public struct Iterator: AsyncIteratorProtocol {
        private let feed: Feed
        private var items: AsyncThrowingStream<FeedItem, any Error>.Iterator

        fileprivate init(_ feed: Feed) {
            self.feed = feed
            let stream = AsyncThrowingStream<FeedItem, any Error> { continuation in
                // Not a child of anybody: it ends with the stream, which ends with its iterator.
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
        /// - Throws: ``FeedError`` if there is no such feed (any more) or this user may not use the daemon's
        ///   socket.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> FeedItem? {
            let item = try await items.next(isolation: actor)
            // The numbers may start over: what was acknowledged says nothing about what comes.
            if case .expired(let expiry)? = item, expiry.reason != .recreated {
                feed.acknowledged.withLock { $0 = nil }
            }
            return item
        }
    }
}
