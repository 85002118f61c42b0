/// The programs that are connected to a store's feeds, one for each feed.
final class FeedSeats: Sendable {
    private struct Seat {
        let number: Int
        let client: FeedClient
        let wakeUp: WakeUpSignal
        /// Signaled when the seat is free again.
        let left = OneShotEvent()
    }

    private struct State {
        var next = 0
        var seats: [FeedID: Seat] = [:]
        /// What each feed has sent. It outlives the connection, because a program may acknowledge on
        /// another one.
        var sent: [FeedID: Sent] = [:]
    }

    private struct Sent {
        let userID: UInt32
        let token: HistoryToken
    }

    private let state = Locked(State())

    /// A program may reconnect before the end of its old connection is detected.
    static let timeout: Duration = .seconds(2)

    /// Runs `body` with a signal that is notified when there may be something for the feed.
    ///
    /// - Throws: `HistoryError` with `.feedInUse` if another program is connected, and what the body throws.
    func occupying<T>(_ feed: FeedID, by client: FeedClient, _ body: (WakeUpSignal) async throws -> T)
        async throws -> T
    {
        let deadline = ContinuousClock.now + Self.timeout
        let wakeUp = WakeUpSignal()
        var number: Int?
        while number == nil {
            let other = state.withLock { state -> Seat? in
                if let other = state.seats[feed] { return other }
                state.next += 1
                state.seats[feed] = Seat(number: state.next, client: client, wakeUp: wakeUp)
                number = state.next
                return nil
            }
            guard let other else { break }
            try Task.checkCancellation()
            let rest = deadline - .now
            guard rest > .zero else {
                throw HistoryError(
                    .feedInUse, "The feed \"\(feed)\" is in use by process \(other.client.processID).",
                    hint: "A feed serves one program at a time. Configure a feed for each program.")
            }
            await other.left.sleep(for: rest)
        }
        defer { leave(feed) }
        return try await body(wakeUp)
    }

    private func leave(_ feed: FeedID) {
        state.withLock { $0.seats.removeValue(forKey: feed) }?.left.signal()
    }

    /// The processes that are connected.
    var clients: [FeedID: Int32] { state.withLock { $0.seats.mapValues(\.client.processID) } }

    /// Records what is about to be sent to a program.
    func note(sent token: HistoryToken, by feed: FeedID, to client: FeedClient) {
        state.withLock { state in
            // What an earlier connection was sent may still be acknowledged.
            if let earlier = state.sent[feed], earlier.userID == client.userID,
                earlier.token.store == token.store, earlier.token.number > token.number
            {
                return
            }
            state.sent[feed] = Sent(userID: client.userID, token: token)
        }
    }

    /// The last token that a feed has sent to a program of this user, if any.
    func sent(by feed: FeedID, to userID: UInt32) -> HistoryToken? {
        state.withLock { $0.sent[feed] }.flatMap { $0.userID == userID ? $0.token : nil }
    }

    func notify(_ feed: FeedID) { state.withLock { $0.seats[feed]?.wakeUp }?.notify() }

    /// Notifies all feeds of a consumer; nil stands for all consumers.
    func notify(consumer: String? = nil) {
        let bells = state.withLock { state in
            state.seats.compactMap { feed, seat in
                consumer ?? feed.consumer == feed.consumer ? seat.wakeUp : nil
            }
        }
        for wakeUp in bells { wakeUp.notify() }
    }

    /// Ends all streams.
    func end() { for seat in state.withLock({ $0.seats.values.map(\.wakeUp) }) { seat.end() } }
}
