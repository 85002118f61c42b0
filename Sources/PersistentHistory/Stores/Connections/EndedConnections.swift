internal import DequeModule
internal import GRDB

extension DatabaseQueue {
    /// Closes the connection for good.
    ///
    /// libdispatch would free the rest of GRDB's connection on a thread of its pool. Once used, that pool
    /// checks its threads every second, even while nothing happens. So the remains of the last thousand
    /// connections are kept, about five kilobytes each.
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
        // Released here, outside the lock.
        _ = oldest
    }
}
