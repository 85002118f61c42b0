import HistoryBase
import HistoryControl
import Logging

/// Growing pauses between attempts to reach the daemon.
struct ReconnectPause {
    private static let silence: Duration = .seconds(300)

    let feed: Feed
    private var pauses = GrowingPause(first: .milliseconds(20), longest: .seconds(5))
    private var reportedAt: ContinuousClock.Instant?

    init(feed: Feed) { self.feed = feed }

    mutating func wait() async throws {
        try await Task.sleep(for: pauses.next(), clock: .loop)
    }

    /// Waits after an error that resolves by itself: the daemon starts, stops, or opens the store.
    ///
    /// - Throws: Any other error, and `CancellationError`.
    mutating func wait(after error: any Error) async throws {
        try Task.checkCancellation()
        switch error {
        case let error as ControlClient.Unreachable where !error.isForbidden: report(error.description)
        case let error as ControlClient.Unanswered: report(error.description)
        case let error as ControlError where error.passes: report(error.description)
        case let error as ControlError: throw HistoryError(error)
        case let error as ControlClient.Unreachable: throw HistoryError(.notPermitted, error.description)
        default: throw error
        }
        // Another daemon may be running now.
        feed.socket.forget()
        try await wait()
    }

    private mutating func report(_ reason: String) {
        let now = ContinuousClock.now
        if let reportedAt, now - reportedAt < Self.silence { return }
        reportedAt = now
        feed.logger.warning(
            "The feed \"\(feed.request.context)\" of \"\(feed.request.consumer)\" is not connected, and tries again: \(reason)"
        )
    }
}

/// The daemon's socket: the given one, or else the one that was found, until it fails.
final class FeedSocket: Sendable {
    private let given: String?
    private let found = Locked<String?>(nil)

    init(_ given: String?) { self.given = given }

    var client: ControlClient { ControlClient(socketPath: given ?? search()) }

    func forget() { found.withLock { $0 = nil } }

    private func search() -> String {
        if let path = found.withLock({ $0 }) { return path }
        let path = ControlSocket.client()
        found.withLock { $0 = path }
        return path
    }
}

extension ControlError {
    fileprivate var passes: Bool {
        switch code {
        // The daemon sends again what it sent before its restart, and then accepts the acknowledgement.
        case .stopping, .storeNotOpen, .feedInUse, .tokenForeign, .tokenNotSent, .tooManyConnections: true
        default: false
        }
    }
}
