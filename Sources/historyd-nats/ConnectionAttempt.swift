import CNats
import HistoryNATS
import PersistentHistory

/// Connects on its own thread: a server that accepts the connection but sends nothing blocks libnats for
/// seconds, and so does each further one of the list.
final class ConnectionAttempt: Sendable {
    private struct Pointer: Sendable {
        nonisolated(unsafe) let value: OpaquePointer
    }

    private enum State: Sendable {
        case running
        case ended(Result<Pointer, NATSError>)
        /// The caller no longer waits for it.
        case abandoned
    }

    private let state = Locked(State.running)

    private init() {}

    /// - Parameters:
    ///   - options: Destroyed by this call.
    ///   - wakeUp: Ends the wait when the program stops.
    /// - Throws: `NATSError`.
    static func connect(_ options: OpaquePointer, _ wakeUp: WorkerSignal) throws -> OpaquePointer {
        _ = Handshakes.areWatched
        let attempt = ConnectionAttempt()
        let options = Pointer(value: options)
        BlockingThreads.shared.run {
            let result = Result { () throws(NATSError) in try connect(options) }
            natsOptions_Destroy(options.value)
            Handshakes.areOver()
            attempt.end(result)
            wakeUp.signal(.connected)
        }
        while true {
            let reasons = wakeUp.wait(for: .connected, until: .now + Handshakes.limit)
            if let result = attempt.result { return try result.get().value }
            if reasons.contains(.stop) {
                attempt.abandon()
                throw NATSError(call: "connect", reason: "the program stops")
            }
            Handshakes.endSlow()
        }
    }

    /// A connection that is refused is tried once more: libnats 3.4.1 does not send a signature whose first byte is
    /// zero, as one in 256 is, and the server takes that for a wrong one. The next connection signs another nonce.
    private static func connect(_ options: Pointer) throws(NATSError) -> Pointer {
        var connection: OpaquePointer?
        var status = natsConnection_Connect(&connection, options.value)
        if status == NATS_CONNECTION_AUTH_FAILED {
            status = natsConnection_Connect(&connection, options.value)
        }
        try NATSConnection.check("connect", status)
        guard let connection else { throw NATSError(call: "connect", reason: "no connection") }
        return Pointer(value: connection)
    }

    private var result: Result<Pointer, NATSError>? {
        state.withLock { state in
            guard case .ended(let result) = state else { return nil }
            return result
        }
    }

    private func end(_ result: Result<Pointer, NATSError>) {
        let isAbandoned = state.withLock { state in
            if case .abandoned = state { return true }
            state = .ended(result)
            return false
        }
        if isAbandoned { Self.destroy(result) }
    }

    private func abandon() {
        let result = state.withLock { state -> Result<Pointer, NATSError>? in
            defer { state = .abandoned }
            guard case .ended(let result) = state else { return nil }
            return result
        }
        if let result { Self.destroy(result) }
    }

    private static func destroy(_ result: Result<Pointer, NATSError>) {
        if case .success(let connection) = result { natsConnection_Destroy(connection.value) }
    }
}
