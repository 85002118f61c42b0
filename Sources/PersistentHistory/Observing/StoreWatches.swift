internal import Glibc

/// The stores that an observer watches: which of them an event concerns.
final class StoreWatches: Sendable {
    private struct State: Sendable {
        var followers: [StoreKey: PathFollower] = [:]
        var lastKey = 0
    }

    private let table: WatchTable
    private let threads: PathFollower.Threads
    private let state = Locked(State())

    init(inotify: Inotify, threads: PathFollower.Threads = .init()) {
        table = WatchTable(inotify: inotify)
        self.threads = threads
    }

    var watchCount: Int { table.count }
    var signals: [StoreSignals] { followers.values.compactMap(\.signals) }

    private var followers: [StoreKey: PathFollower] { state.withLock { $0.followers } }

    /// Places the watches of a store that need not exist. May wait for the disk.
    ///
    /// - Parameter path: absolute.
    func add(_ path: String, _ signals: StoreSignals) throws(ObserverError) -> StoreKey {
        let key = state.withLock { state in
            state.lastKey += 1
            return state.lastKey
        }
        let follower = PathFollower(
            path, key, signals, in: table, threads: threads,
            doubt: { [weak self] keys in self?.follow(keys) },
            fail: { [weak self, weak signals] error in
                self?.remove(key)
                signals?.end(error)
            })
        state.withLock { $0.followers[key] = follower }
        do throws(ObserverError) {
            try follower.begin()
        } catch {
            remove(key)
            throw error
        }
        return key
    }

    func remove(_ key: StoreKey) { state.withLock { $0.followers.removeValue(forKey: key) }?.end() }

    /// Hands over what events mean, and waits for nothing.
    func handle(_ events: [InotifyEvent]) {
        let followers = followers
        var works: [StoreKey: PathFollower.Work] = [:]
        for event in events {
            if event.has(IN_Q_OVERFLOW) {
                for key in followers.keys {
                    works[key, default: []].formUnion([.overflowed, .signal, .follow])
                }
            }
            for key in table.stores(for: event) {
                if let follower = followers[key] {
                    works[key, default: []].formUnion(follower.work(for: event))
                }
            }
            if event.has(IN_IGNORED) { table.forget(event.watch) }
        }
        for (key, work) in works { followers[key]?.heed(work) }
    }

    /// Follows every path again: something was mounted or unmounted, which inotify reports only in part.
    func followAll() { for follower in followers.values { follower.heed(.follow) } }

    /// Follows the paths again of stores whose events may be lost, and those of commits with them.
    private func follow(_ keys: Set<StoreKey>) {
        if keys.isEmpty { return }
        let followers = followers
        for key in keys { followers[key]?.heed([.signal, .follow]) }
    }

    // MARK: For tests

    var isUnsettled: Bool { followers.values.contains(where: \.isUnsettled) }
    func followUnsettled() {
        for follower in followers.values where follower.isUnsettled { follower.heed(.follow) }
    }
}
