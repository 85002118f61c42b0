/// A handle on a store that is served, for whoever steers it: it stays while the store is opened,
/// lost, replaced, or begun anew with another configuration.
public final class StoreControl: Sendable {
    public let passes = PassControl()
    private let state = Locked(State())

    private struct State {
        var session: StoreSession?
        /// How often the store was opened.
        var openings = 0
        var nextFollower = 0
        var followers: [Int: Bell] = [:]
    }

    public init() {}

    func opened(_ session: StoreSession) {
        state.withLock { state in
            state.session = session
            state.openings += 1
        }
        tellFollowers()
    }

    func closed() { state.withLock { $0.session = nil } }

    /// The session with the store, as long as it is open.
    ///
    /// - Throws: `HistoryError` with `.storeNotOpen`.
    func session() throws(HistoryError) -> StoreSession {
        guard let session = state.withLock({ $0.session }) else {
            throw HistoryError(
                .storeNotOpen, "The store is not open.", hint: "Its status says why; it is tried again.")
        }
        return session
    }

    // MARK: Followers

    var openings: Int { state.withLock { $0.openings } }

    /// Tells those who follow the history that there may be more of it.
    func tellFollowers() {
        for bell in state.withLock({ $0.followers.values.map { $0 } }) { bell.ring() }
    }

    /// Runs something with a bell that rings when there may be more history.
    func following<T>(_ body: (Bell) async throws -> T) async rethrows -> T {
        let bell = Bell()
        let number = state.withLock { state in
            state.nextFollower += 1
            state.followers[state.nextFollower] = bell
            return state.nextFollower
        }
        defer { state.withLock { _ = $0.followers.removeValue(forKey: number) } }
        return try await body(bell)
    }
}

extension HistoryError.Code {
    /// A store that is served is not open at the moment.
    public static let storeNotOpen = HistoryError.Code("storeNotOpen")
    /// A consumer or a context that is not served.
    public static let unknownName = HistoryError.Code("unknownName")
}
