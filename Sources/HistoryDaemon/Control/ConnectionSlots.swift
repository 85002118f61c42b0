import PersistentHistory

/// Limits the connections to the control socket, because each takes a descriptor and memory. No user can take
/// all the slots of others.
///
/// Root and the daemon's user are not limited: operators must always be able to connect.
final class ConnectionSlots: Sendable {
    /// For all users together, in addition to one for each feed: consumers of feeds stay connected.
    static let most = 64
    /// For one user, in addition to one for each feed.
    static let mostOfOne = 16

    private struct State {
        var count = 0
        var users: [UInt32: Int] = [:]
    }

    private let state = Locked(State())

    func take(for peer: Peer, feeds: Int) -> Place? {
        peer.maySteer ? Place(of: peer.userID, among: nil) : take(for: peer.userID, feeds: feeds)
    }

    /// - Returns: Nil if no slot is left for the user.
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

    /// One connection's slot.
    final class Place: Sendable {
        private let userID: UInt32
        private let slots: Locked<ConnectionSlots?>

        /// - Parameter slots: Nil for a slot that is not counted.
        init(of userID: UInt32, among slots: ConnectionSlots?) {
            self.userID = userID
            self.slots = Locked(slots)
        }

        deinit { leave() }

        /// Releases the slot: the connection has ended, or no longer counts.
        func leave() {
            let slots = self.slots.withLock { slots in
                defer { slots = nil }
                return slots
            }
            slots?.leave(userID)
        }
    }
}
