import CSystemd
import Glibc
public import Logging

/// Tells a service manager how the daemon is.
public protocol ServiceNotifying: Sendable {
    /// Sends all of them as one datagram, in this order.
    func notify(_ notifications: [ServiceNotification])
}

extension ServiceNotifying {
    public func notify(_ notifications: ServiceNotification...) {
        notify(notifications)
    }
}

/// Tells systemd, through `$NOTIFY_SOCKET`. Does nothing where there is none.
public struct ServiceNotifier: ServiceNotifying {
    private let logger: Logger

    public init(logger: Logger) {
        self.logger = logger
    }

    public func notify(_ notifications: [ServiceNotification]) {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
        let state = notifications.map { $0.assignments(monotonicMicroseconds: microseconds) }
            .joined(separator: "\n")
        let result = sd_notify(0, state)
        if result < 0 {
            logger.warning("The service manager could not be told \"\(state)\": errno \(-result).")
        }
    }

    /// How often the service manager wants to hear that the service works, if it does.
    ///
    /// Source: sd_watchdog_enabled(3), which also looks whether it is this process that is meant.
    public static func watchdogInterval() -> Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(Int64(clamping: microseconds))
    }
}
