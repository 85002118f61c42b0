import PersistentHistory

/// The events that a worker's thread waits for.
package final class WorkerSignal: Sendable {
    package struct Reasons: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The store has new transactions, or was replaced by another file.
        package static let commit = Reasons(rawValue: 1)
        package static let disconnected = Reasons(rawValue: 2)
        /// The program stops.
        package static let stop = Reasons(rawValue: 4)
        /// An attempt to connect has ended.
        package static let connected = Reasons(rawValue: 8)
    }

    private let reasons = Locked<Reasons>([])
    private let connection = Locked<(any StreamConnection)?>(nil)
    private let semaphore = TimedSemaphore()

    /// Lives as long as the process, because libnats' threads may signal after their connection was destroyed.
    package init() { _ = Unmanaged.passRetained(self) }

    package func signal(_ reason: Reasons) {
        // If it is set already, the thread has been signaled.
        if reasons.withLock({ $0.insert(reason).inserted }) { semaphore.signal() }
    }

    package var isStopped: Bool { reasons.withLock { $0.contains(.stop) } }

    /// Ends the thread's wait, even inside a connection.
    package func stop() {
        signal(.stop)
        connection.withLock { $0 }?.close()
    }

    /// Sets the connection in which the thread may be waiting.
    func use(_ connection: (any StreamConnection)?) {
        if connection != nil { reasons.withLock { _ = $0.remove(.disconnected) } }
        self.connection.withLock { $0 = connection }
        if isStopped { connection?.close() }
    }

    /// Blocks until one of the reasons is signaled.
    ///
    /// - Parameter deadline: Nil waits forever.
    /// - Returns: The signaled reasons; none at the deadline. All but `stop` are reset.
    package func wait(for wanted: Reasons, until deadline: ContinuousClock.Instant? = nil) -> Reasons {
        while true {
            let found = reasons.withLock { reasons -> Reasons in
                let found = reasons.intersection(wanted.union(.stop))
                reasons.subtract(found.subtracting(.stop))
                return found
            }
            if !found.isEmpty { return found }
            guard let deadline else {
                semaphore.wait()
                continue
            }
            let rest = deadline - .now
            if rest <= .zero { return [] }
            semaphore.wait(atMost: rest)
        }
    }
}
