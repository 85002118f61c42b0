internal import DequeModule
internal import GRDB

extension DatabaseQueue {
    /// Closes the connection for good.
    ///
    /// What GRDB has besides it, libdispatch would free on a thread of its pool, and a pool that was used once
    /// looks after its threads each second from then on, however long nothing happens. So the remains of
    /// the last thousand are kept: about five kilobytes each.
    package func end() throws {
        EndedConnections.keep(self)
        try close()
    }
}

private enum EndedConnections {
    private static let most = 1000
    private static let kept = Locked<Deque<DatabaseQueue>>([])

    static func keep(_ queue: DatabaseQueue) {
        let oldest = kept.withLock { kept in
            kept.append(queue)
            return kept.count > most ? kept.popFirst() : nil
        }
        // Let go of here, outside the lock.
        _ = oldest
    }
}
