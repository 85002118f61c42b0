import HistoryConfiguration
import HistoryDaemon
import HistoryFeed
import HistoryNATS
import Logging
import PersistentHistory

/// Acknowledges transactions to the daemon's feed once the stream has them safely. Until then the daemon keeps
/// their history.
///
/// The publisher reads what it sends from the store itself, so that the feed's window does not delay it.
final class FeedAcknowledger: Sendable {
    private struct State {
        var release: FeedRelease
        /// Transactions that the feed has sent and that are not acknowledged, in order.
        var received: [HistoryToken] = []
    }

    private let feed: Feed
    private let name: String
    private let logger: Logger
    private let state: Locked<State>
    private let changes = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ source: NATSConfiguration.FeedSource, hold: Duration, logger: Logger) {
        feed = Feed(
            consumer: source.consumer, context: source.context, socketPath: source.socket ?? Feed.systemSocket)
        name = "\(source.consumer)/\(source.context)"
        self.logger = logger
        state = Locked(State(release: FeedRelease(hold: hold)))
    }

    /// Notes the position that the server has acknowledged. May be called from any thread.
    func acknowledged(through number: Int64) {
        state.withLock { $0.release.acknowledged(through: number, at: .now) }
        changes.continuation.yield()
    }

    /// Runs until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.receive() }
            group.addTask { await self.release() }
            await group.next()
            group.cancelAll()
        }
    }

    private func receive() async {
        while !Task.isCancelled {
            do {
                for try await item in feed {
                    if case .expired = item {
                        // The publisher detects a gap by itself.
                        state.withLock { $0.received = [] }
                        try await feed.acknowledge(item)
                    } else if let token = item.token {
                        state.withLock { $0.received.append(token) }
                        changes.continuation.yield()
                    }
                }
            } catch {
                logger.report(
                    .natsFeedUnusable,
                    "The feed \"\(name)\" cannot be used, and the daemon may delete history that is not published: \(sentence(error))"
                )
                try? await Task.sleep(for: Self.pauseAfterFailure, clock: .loop)
            }
        }
    }

    private static let pauseAfterFailure: Duration = .seconds(30)

    private func release() async {
        for await _ in changes.stream {
            while !Task.isCancelled {
                let now = ContinuousClock.now
                let (token, next) = state.withLock { state -> (HistoryToken?, ContinuousClock.Instant?) in
                    guard let through = state.release.through(at: now) else { return (nil, state.release.next) }
                    return (state.received.last { $0.number <= through }, state.release.next)
                }
                do {
                    if let token {
                        try await feed.acknowledge(token)
                        state.withLock { $0.received.removeAll { $0.number <= token.number } }
                    }
                    guard let next else { break }
                    try await Task.sleep(for: next - now, clock: .loop)
                } catch is CancellationError {
                    return
                } catch {
                    logger.error("The feed refuses an acknowledgement: \(error). It is tried again.")
                    try? await Task.sleep(for: Self.pauseAfterFailure, clock: .loop)
                }
            }
        }
    }
}
