/// Whether a store makes progress. Any thread may query it, even while the store's thread waits for a
/// lock or a disk.
final class StoreProgress: Sendable {
    private struct State {
        var unreadSince: SuspendingClock.Instant?
        var connection: StateConnection?
        var keepers: [ContextKeeper] = []
    }

    private let state = Locked(State())

    /// Notes that there may be something new to read.
    func signalled() { state.withLock { $0.unreadSince = $0.unreadSince ?? .now } }

    /// Notes that the store was read.
    func read() { state.withLock { $0.unreadSince = nil } }

    func opened(_ connection: StateConnection) { state.withLock { $0 = State(connection: connection) } }
    func began(_ keepers: [ContextKeeper]) { state.withLock { $0.keepers = keepers } }
    func clear() { state.withLock { $0 = State() } }

    /// What is waiting now.
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
    /// What an open store waits for, and for how long.
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

        /// How long changes of the store have been unread; nil if there are none.
        package var unreadTime: Duration?
        /// How long the state could not be written, or has not answered; nil if neither.
        package var stateTime: Duration?
        package var contexts: [Context] = []

        package init(unreadTime: Duration? = nil, stateTime: Duration? = nil, contexts: [Context] = []) {
            (self.unreadTime, self.stateTime, self.contexts) = (unreadTime, stateTime, contexts)
        }
    }

    package var standing: Standing { progress.standing }
}
