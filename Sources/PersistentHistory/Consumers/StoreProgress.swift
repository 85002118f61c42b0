/// Whether a store gets on: asked from any thread, also while the store's own waits for a lock or a disk.
final class StoreProgress: Sendable {
    private struct State {
        var unreadSince: SuspendingClock.Instant?
        var connection: StateConnection?
        var keepers: [ContextKeeper] = []
    }

    private let state = Locked(State())

    /// There may be something new to read.
    func signalled() { state.withLock { $0.unreadSince = $0.unreadSince ?? .now } }

    /// The store was read since.
    func read() { state.withLock { $0.unreadSince = nil } }

    func opened(_ connection: StateConnection) { state.withLock { $0 = State(connection: connection) } }
    func began(_ keepers: [ContextKeeper]) { state.withLock { $0.keepers = keepers } }
    func closed() { state.withLock { $0 = State() } }

    /// What stands still now.
    var standing: StoreControl.Standing {
        let (since, connection, keepers) = state.withLock { ($0.unreadSince, $0.connection, $0.keepers) }
        return StoreControl.Standing(
            unreadTime: since.map { .now - $0 }, stateTime: connection?.waitingTime,
            contexts: keepers.compactMap(\.stuckContext))
    }

    /// For how long one of the contexts has made no progress; see `SerialThreadExecutor.standstill`.
    func standstill() -> Duration? { state.withLock { $0.keepers }.compactMap { $0.standstill() }.max() }
}

extension StoreControl {
    /// What of an open store waits, and for how long.
    package struct Standing: Sendable {
        /// A context that waits for its disk or a lock.
        package struct Context: Sendable {
            package let consumer: String
            package let name: String
            package let time: Duration

            package init(consumer: String, name: String, time: Duration) {
                (self.consumer, self.name, self.time) = (consumer, name, time)
            }
        }

        /// The store has changed, and was not read since; nil if it was.
        package var unreadTime: Duration?
        /// The state could not be written, or does not answer; nil if neither.
        package var stateTime: Duration?
        package var contexts: [Context] = []

        package init(unreadTime: Duration? = nil, stateTime: Duration? = nil, contexts: [Context] = []) {
            (self.unreadTime, self.stateTime, self.contexts) = (unreadTime, stateTime, contexts)
        }
    }

    package var standing: Standing { progress.standing }
}
