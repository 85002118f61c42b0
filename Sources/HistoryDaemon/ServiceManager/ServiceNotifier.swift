import CSystemd
import Glibc
import HistoryControl
package import Logging
import PersistentHistory
import ServiceLifecycle

/// Notifies a service manager of the daemon's state.
package protocol ServiceNotifying: Sendable {
    /// Sends all of them as one datagram, in this order.
    func notify(_ notifications: [ServiceNotification])
}

extension ServiceNotifying {
    package func notify(_ notifications: ServiceNotification...) {
        notify(notifications)
    }
}

/// Notifies systemd through `$NOTIFY_SOCKET`. Does nothing if that is not set.
///
/// It does not block on a service manager that does not read: important notifications are kept and sent with
/// the next one or, where this runs as a service, as soon as the manager reads again.
package final class ServiceNotifier: ServiceNotifying, Service {
    private let logger: Logger
    private let state = Locked(State())
    private let wakeUp = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    private struct State {
        var unsent = UnsentNotifications()
        var isStuck = false
        /// Stays open: the watchdog must also be fed while the process lacks descriptors.
        var socket: Int32 = -1
    }

    package init(logger: Logger) {
        self.logger = logger
    }

    deinit { state.withLock { if $0.socket >= 0 { close($0.socket) } } }

    package func notify(_ notifications: [ServiceNotification]) {
        guard let socket = getenv("NOTIFY_SOCKET") else { return }
        let (problem, isOver) = state.withLock { state -> (String?, Int?) in
            state.unsent.add(notifications)
            return Self.send(&state, to: String(cString: socket))
        }
        if let problem {
            logger.warning(
                "The service manager cannot be notified: \(problem). The daemon continues, and sends important notifications again."
            )
            wakeUp.continuation.yield()
        }
        if let isOver {
            logger.notice("The service manager can be notified again; \(isOver, "notification") were dropped.")
        }
    }

    /// - Returns: The problem, when it starts; the number of dropped notifications, when it is over.
    private static func send(_ state: inout State, to path: String) -> (problem: String?, dropped: Int?) {
        while let next = state.unsent.first {
            if let error = send(next, to: path, through: &state.socket) {
                state.unsent.keepWhatLasts()
                defer { state.isStuck = true }
                return (state.isStuck ? nil : String(cString: strerror(error)), nil)
            }
            state.unsent.removeFirst()
        }
        guard state.isStuck else { return (nil, nil) }
        state.isStuck = false
        defer { state.unsent.dropped = 0 }
        return (nil, state.unsent.dropped)
    }

    /// Sends a datagram as sd_notify(3) does, which would block while the socket is full.
    ///
    /// - Returns: An errno if it was not sent.
    private static func send(
        _ notifications: [ServiceNotification], to path: String, through descriptor: inout Int32
    ) -> Int32? {
        let now = LoopClock.monotonicMicroseconds
        let text = notifications.map { $0.assignments(monotonicMicroseconds: now) }
            .joined(separator: "\n")
        // Other addresses are those of a virtual machine's host, which does not manage this daemon.
        guard path.hasPrefix("/") || path.hasPrefix("@"), path.utf8.count <= UnixAddress.longestPath else {
            return EAFNOSUPPORT
        }
        if descriptor < 0 {
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        }
        guard descriptor >= 0 else { return errno }
        let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
        let sent = UnixAddress.with(path, mayBeAbstract: true) { [descriptor] in
            sendto(descriptor, text, text.utf8.count, flags, $0, $1)
        }
        return sent < 0 ? errno : nil
    }

    /// Sends pending notifications until they are sent. It sleeps while there are none.
    package func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in self.wakeUp.stream {
                var failures = 0
                while self.state.withLock({ $0.isStuck }), !Task.isCancelled {
                    failures += 1
                    // It throws only when the daemon stops.
                    try? await Task.sleep(for: Backoff.delay(afterFailures: failures), clock: .loop)
                    self.notify([])
                }
            }
        }
    }

    /// How often the service manager expects a keep-alive notification; nil if it expects none.
    ///
    /// Source: sd_watchdog_enabled(3), which also checks that this process is meant.
    package static func watchdogInterval() -> Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(Int64(clamping: microseconds))
    }
}
