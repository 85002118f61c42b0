/// A handle to control a served store. It stays valid while the store is opened, lost, replaced, or
/// served again with another configuration.
package final class StoreControl: Sendable {
    package let passes = PassControl()
    /// Held by who retries dead letters: two at once would make each call twice.
    package let retries = AsyncLock()
    let seats = FeedSeats()
    let progress = StoreProgress()
    /// The thread for everything of the store.
    let thread = StoreThread()
    /// Signaled when the store is no longer served.
    let over = OneShotEvent()
    private let state = Locked(State())

    private struct State {
        var session: StoreSession?
        var lastStoreID: StoreID?
        /// When opening first failed.
        var failingSince: ContinuousClock.Instant?
        /// How many callers use the session.
        var users = 0
        /// Signaled when no caller is left.
        var unused: OneShotEvent?
        var nextFollower = 0
        var followers: [Int: WakeUpSignal] = [:]
        var rest: Rest?
        var stopTimeout: Duration = .seconds(1)
    }

    package init() {}

    /// A store whose connections are closed while nothing happens.
    struct Rest {
        /// The positions when it was closed, which stay valid until the next commit.
        let positions: Positions
        /// The schema that its tracking was for then.
        let schemaVersion: Int64
        /// Its files at the last look, which they show commits after; nil before that look.
        fileprivate(set) var files: RestingFiles?
        /// Signaled after that look, or when there is none.
        fileprivate let looked = OneShotEvent()
        /// Signaled when the store is needed.
        let needed = OneShotEvent()
        /// Signaled when it is open again, or cannot be opened.
        fileprivate let ended = OneShotEvent()
        /// Whether it is to be opened.
        fileprivate var isOver = false
    }

    /// How long a stop waits for the calls in flight.
    package var stopTimeout: Duration {
        get { state.withLock { $0.stopTimeout } }
        set { state.withLock { $0.stopTimeout = newValue } }
    }

    /// If the store's thread stands still for this time, the watchdog is not notified.
    package static let longestStandstill: Duration = .seconds(300)

    /// How long the store's thread, or one of its contexts, has neither finished its job nor computed, as
    /// of the previous call; nil without a job. Waiting for a disk does not count: a restart would not
    /// help, and the health report names it.
    package func standstill() -> Duration? {
        [thread.executor.standstill(), progress.standstill()].compactMap(\.self).max()
    }

    /// An attempt to open a store that takes longer counts as trouble. It may recover a log, or many
    /// stores may start at once.
    private static let longestOpening: Duration = .seconds(5)

    /// How long the store could not be opened, since an attempt failed or with one that takes too long.
    /// Nil while it is open, or waits for its turn.
    package var openingTime: Duration? {
        let attempt = thread.executor.busyTime.flatMap { $0 < Self.longestOpening ? nil : $0 }
        return [state.withLock { $0.failingSince }.map { .now - $0 }, attempt].compactMap(\.self).max()
    }

    /// The id of the open store; nil while it is not open.
    package var storeID: StoreID? {
        let (session, rest) = state.withLock { ($0.session, $0.rest) }
        return session?.opened.storeID ?? rest?.positions.newest.store
    }

    /// The id of the last open store.
    package var lastStoreID: StoreID? { state.withLock { $0.lastStoreID } }

    /// Notes that the store could not be opened.
    func openingFailed() {
        state.withLock { state in
            state.failingSince = state.failingSince ?? .now
            return state.rest.take()
        }?.ended.signal()
    }

    // MARK: Rest

    /// Whether its connections are closed because nothing happens.
    package var isResting: Bool { rest?.files != nil }

    /// Nil while it does not rest.
    var rest: Rest? { state.withLock { $0.rest.flatMap { $0.isOver ? nil : $0 } } }

    /// Whether no caller or follower uses the open store.
    var isUnused: Bool { state.withLock { $0.users == 0 && $0.followers.isEmpty } && seats.clients.isEmpty }

    func beginRest(_ positions: Positions, schemaVersion: Int64) {
        state.withLock { $0.rest = Rest(positions: positions, schemaVersion: schemaVersion) }
    }

    /// Notes how its files look while nothing is committed.
    func rests(_ files: RestingFiles) { decideRest { $0.files = files } }

    /// Marks a resting store to be opened.
    func endRest() { decideRest { $0.isOver = true } }

    private func decideRest(_ change: (inout Rest) -> Void) {
        state.withLock { state -> OneShotEvent? in
            guard var rest = state.rest else { return nil }
            change(&rest)
            state.rest = rest
            return rest.looked
        }?.signal()
    }

    /// A store that rests and has nothing new; nil if it is open. It is not woken: its watch does that.
    ///
    /// - Parameter limit: How long to wait for a store that is just being closed, or opened again.
    func restWithoutNews(within limit: Duration) async throws -> Rest? {
        if let rest, rest.files == nil { await wait(atMost: limit) { await rest.looked.wait() } }
        guard let rest = state.withLock({ $0.rest }) else { return nil }
        if !rest.isOver, let files = rest.files {
            // What the watch tells may come a moment later.
            let isUnchanged = try await firstAnswer(within: limit) { answer in
                thread.executor.perform { answer(.success(files.showNoCommit)) }
            }
            if isUnchanged ?? false { return rest }
        }
        await wait(atMost: limit) { await rest.ended.wait() }
        return nil
    }

    /// How long a caller waits for a resting store.
    private static let awakening: Duration = .seconds(10)

    /// Wakes a resting store, and waits until it is open.
    private func awaken() async {
        guard let rest = state.withLock({ $0.rest }) else { return }
        rest.needed.signal()
        await wait(atMost: Self.awakening) { await rest.ended.wait() }
    }

    func opened(_ session: StoreSession) {
        let rest = state.withLock { state in
            (state.session, state.failingSince) = (session, nil)
            state.lastStoreID = session.opened.storeID
            return state.rest.take()
        }
        rest?.ended.signal()
        progress.opened(session.opened.state.connection)
        notifyFollowers()
        seats.notify()
    }

    /// Ends the streams that follow the history or a feed: the store is no longer served.
    package func end() {
        over.signal()
        for wakeUp in state.withLock({ $0.followers.values.map { $0 } }) { wakeUp.end() }
        seats.end()
    }

    /// Admits no more callers to the session and waits for those in it. They may have their own
    /// connections to the store, which must be closed before its probe.
    func waitUntilClosed() async {
        progress.read()
        let unused = state.withLock { state -> OneShotEvent? in
            (state.session, state.failingSince) = (nil, nil)
            guard state.users > 0 else { return nil }
            let signal = OneShotEvent()
            state.unused = signal
            return signal
        }
        await unused?.wait()
    }

    /// Runs a body with the open store.
    ///
    /// - Parameter awakening: Whether to open the store if it rests.
    /// - Throws: `HistoryError` with `.storeNotOpen`, and what the body throws.
    func withSession<T>(awakening: Bool = true, _ body: (StoreSession) async throws -> T) async throws -> T {
        if awakening { await awaken() }
        let session = try enter()
        defer { leave() }
        return try await body(session)
    }

    /// Runs a query on the open store, on its thread.
    func ask<T: Sendable>(
        within limit: Duration = StoreSession.actionTimeout, awakening: Bool = true,
        _ body: @escaping @Sendable (isolated StoreSession) throws -> T
    ) async throws -> T {
        try await withSession(awakening: awakening) { try await $0.ask(within: limit, body) }
    }

    /// Whether a consumer of the open store has not caught up, or the store's thread does not answer.
    package func isAtWork() async -> Bool {
        do {
            return try await ask(within: StoreSession.answerTimeout, awakening: false) { $0.isAtWork }
        } catch let error as HistoryError {
            return error.code != .storeNotOpen
        } catch {
            return true
        }
    }

    private func enter() throws(HistoryError) -> StoreSession {
        let session = state.withLock { state in
            if state.session != nil { state.users += 1 }
            return state.session
        }
        guard let session else { throw HistoryError.storeNotOpen }
        return session
    }

    private func leave() {
        let unused = state.withLock { state -> OneShotEvent? in
            state.users -= 1
            guard state.users == 0 else { return nil }
            defer { state.unused = nil }
            return state.unused
        }
        unused?.signal()
    }

    /// Retries what another process's lock prevents: for some seconds, unless fewer attempts are
    /// requested.
    package func retryingWhileBusy<T>(attempts: Int = 9, _ body: () async throws -> T) async throws -> T {
        var pause = GrowingPause()
        while true {
            do {
                return try await body()
            } catch let error as HistoryError
                where error.code == .storeBusy && pause.failures < attempts - 1
                && !(error.cause is StoreSession.Unresponsive)
            {
                try await Task.sleep(for: pause.next(), clock: .loop)
            }
        }
    }

    // MARK: Followers

    /// Notifies the streams that follow the history that there may be more of it.
    func notifyFollowers() {
        for wakeUp in state.withLock({ $0.followers.values.map { $0 } }) { wakeUp.notify() }
    }

    /// Runs `body` with a signal that is notified when there may be more history.
    func following<T>(_ body: (WakeUpSignal) async throws -> T) async rethrows -> T {
        let wakeUp = WakeUpSignal()
        let number = state.withLock { state in
            state.nextFollower += 1
            state.followers[state.nextFollower] = wakeUp
            return state.nextFollower
        }
        defer { state.withLock { _ = $0.followers.removeValue(forKey: number) } }
        return try await body(wakeUp)
    }
}

extension HistoryError {
    /// How long a store had not answered a query; nil for other errors.
    package var unresponsiveTime: Duration? { (cause as? StoreSession.Unresponsive)?.time }

    static var storeNotOpen: HistoryError {
        HistoryError(
            .storeNotOpen, "The store is not open.",
            hint: "`historyctl status` says why. The daemon tries again.")
    }
}
