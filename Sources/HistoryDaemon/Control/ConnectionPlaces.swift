import PersistentHistory

/// How many connections to the control socket there may be at once, each of which costs a descriptor and
/// memory. No user can take the places of all others.
///
/// Root and the daemon's user are not limited: operators must always be able to connect.
final class ConnectionPlaces: Sendable {
    /// For all users together, besides one for each feed: programs at feeds stay.
    static let most = 64
    /// For one user, besides one for each feed.
    static let mostOfOne = 16

    private struct State {
        var count = 0
        var users: [UInt32: Int] = [:]
    }

    private let state = Locked(State())

    /// - Returns: Nil if no place is left for the user.
    func take(for userID: UInt32, feeds: Int) -> Place? {
        state.withLock { state in
            guard state.count < Self.most + feeds, state.users[userID, default: 0] < Self.mostOfOne + feeds
            else { return nil }
            state.count += 1
            state.users[userID, default: 0] += 1
            return Place(of: userID, among: self)
        }
    }

    fileprivate func leave(_ userID: UInt32) {
        state.withLock { state in
            state.count -= 1
            let left = state.users[userID, default: 1] - 1
            state.users[userID] = left == 0 ? nil : left
        }
    }

    /// One connection's place, until it is left.
    final class Place: Sendable {
        private let userID: UInt32
        private let places: Locked<ConnectionPlaces?>

        /// - Parameter places: Nil for a place that is not counted.
        init(of userID: UInt32, among places: ConnectionPlaces?) {
            self.userID = userID
            self.places = Locked(places)
        }

        deinit { leave() }

        /// The connection is over, or is not counted any more.
        func leave() {
            let places = self.places.withLock { places in
                defer { places = nil }
                return places
            }
            places?.leave(userID)
        }
    }
}
