/// A notification from a service to its service manager.
///
/// Source: sd_notify(3).
package enum ServiceNotification: Sendable, Hashable {
    /// Start-up, or a reload, is finished.
    case ready
    /// The configuration is being read again. ``ready`` must follow, also when it was refused.
    case reloading
    case stopping
    /// One line for `systemctl status`, in the present tense.
    case status(String)
    /// The service still works: see ``WatchdogService``.
    case watchdog
    /// Start, reload or stop need longer: so much from now on.
    case extendTimeout(Duration)

    /// The assignments of the notification, one a line.
    ///
    /// - Parameter monotonicMicroseconds: the time of CLOCK_MONOTONIC. A reload of `Type=notify-reload`
    ///   waits in vain for one whose notification does not carry it in the same datagram.
    func assignments(monotonicMicroseconds: UInt64) -> String {
        switch self {
        case .ready: "READY=1"
        case .reloading: "RELOADING=1\nMONOTONIC_USEC=\(monotonicMicroseconds)"
        case .stopping: "STOPPING=1"
        // A line break would begin another assignment.
        case .status(let text): "STATUS=\(String(text.map { $0.isNewline ? " " : $0 }))"
        case .watchdog: "WATCHDOG=1"
        case .extendTimeout(let duration): "EXTEND_TIMEOUT_USEC=\(duration.microseconds)"
        }
    }
}

extension Duration {
    /// Whole microseconds, rounded down, at least 0.
    var microseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        return UInt64(seconds) * 1_000_000 + UInt64(attoseconds / 1_000_000_000_000)
    }
}
