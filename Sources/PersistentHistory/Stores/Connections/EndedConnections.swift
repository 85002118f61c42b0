internal import CSQLiteHistory
internal import DequeModule
package import GRDB

extension DatabaseQueue {
    /// Opens a connection. One that cannot be opened is kept like one that has ended.
    ///
    /// - Parameters:
    ///   - prepare: Prepares the connection, before GRDB reads the schema.
    ///   - first: What the connection is opened for; if it fails, the connection is closed.
    package static func open(
        _ uri: String, _ configuration: Configuration,
        prepare: @escaping @Sendable (Database) throws -> Void,
        first: (DatabaseQueue) throws -> Void = { _ in }
    ) throws -> DatabaseQueue {
        var configuration = configuration
        let held = Locked<HeldQueue?>(nil)
        configuration.prepareDatabase { db in
            held.withLock { $0 = HeldQueue() }
            try prepare(db)
        }
        do {
            let queue = try DatabaseQueue(path: uri, configuration: configuration)
            // The connection has its configuration: it would keep itself.
            held.withLock { $0 = nil }
            do { try first(queue) } catch {
                try? queue.end()
                throw error
            }
            return queue
        } catch {
            if let held = held.withLock({ $0.take() }) { EndedConnections.keep(held) }
            throw error
        }
    }

    /// Closes the connection for good, and keeps it: see `EndedConnections`.
    package func end() throws {
        EndedConnections.keep(self)
        try close()
    }
}

/// The remains of the last thousand connections, about five kilobytes each.
///
/// libdispatch would free a part of them on a thread of its pool. Once used, that pool checks its threads every
/// second, even while nothing happens, and ends the process if it finds no descriptor for that.
private enum EndedConnections {
    private static let most = 1000
    private static let kept = Locked<Deque<any Sendable>>([])

    static func keep(_ remains: any Sendable) {
        let oldest = kept.withLock { kept in
            kept.append(remains)
            return kept.count > most ? kept.popFirst() : nil
        }
        // Released here, outside the lock.
        _ = oldest
    }
}

/// The dispatch queue on which it was made, of a connection that is being opened. GRDB does not hand it out.
private final class HeldQueue: Sendable {
    private let address = UInt(bitPattern: history_hold_queue())

    deinit { history_release_queue(UnsafeMutableRawPointer(bitPattern: address)) }
}
