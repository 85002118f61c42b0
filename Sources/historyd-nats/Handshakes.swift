internal import CTLS
import Glibc
import PersistentHistory

/// The TLS handshakes in progress. libnats waits for one without a limit; this ends a handshake that takes too
/// long.
///
/// OpenSSL reports each TLS object that is created and freed, on the thread that does so.
enum Handshakes {
    private struct Handshake: Sendable {
        nonisolated(unsafe) let object: UnsafeMutableRawPointer
        let thread: pthread_t
        let start: ContinuousClock.Instant
    }

    /// How long a handshake may take.
    static let limit: Duration = .seconds(5)

    private static let running = Locked<[Handshake]>([])

    /// Whether OpenSSL reports TLS objects.
    static let areWatched =
        CRYPTO_get_ex_new_index(
            CRYPTO_EX_INDEX_SSL, 0, nil,
            { object, _, _, _, _, _ in
                guard let object else { return }
                let handshake = Handshake(object: object, thread: pthread_self(), start: .now)
                running.withLock { $0.append(handshake) }
            }, nil,
            { object, _, _, _, _, _ in running.withLock { $0.removeAll { $0.object == object } } }) >= 0

    /// Forgets the handshakes of the calling thread.
    static func areOver() {
        let thread = pthread_self()
        running.withLock { $0.removeAll { pthread_equal($0.thread, thread) != 0 } }
    }

    /// Ends those that take too long: to the waiting thread it looks as if the server had closed the
    /// connection.
    static func endSlow(at now: ContinuousClock.Instant = .now) {
        running.withLock { running in
            // The object cannot be freed meanwhile: that takes the lock.
            for handshake in running where now - handshake.start >= limit {
                let socket = SSL_get_fd(OpaquePointer(handshake.object))
                if socket >= 0 { shutdown(socket, Int32(SHUT_RDWR)) }
            }
        }
    }
}
