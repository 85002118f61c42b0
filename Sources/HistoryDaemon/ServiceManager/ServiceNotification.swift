import PersistentHistory

/// A notification from a service to its service manager.
///
/// Source: sd_notify(3).
package enum ServiceNotification: Sendable, Hashable {
    /// Start-up, or a reload, is finished.
    case ready
    /// The configuration is being read again. ``ready`` must follow, even if the configuration is refused.
    case reloading
    case stopping
    /// One line for `systemctl status`, in the present tense.
    case status(String)
    /// The service still works; see ``WatchdogService``.
    case watchdog
    /// Start, reload or stop take longer: this much from now on.
    case extendTimeout(Duration)

    /// The assignments of the notification, one per line.
    ///
    /// - Parameter monotonicMicroseconds: The time of CLOCK_MONOTONIC. Under `Type=notify-reload`, the service
    ///   manager ignores a reload notification that does not carry it in the same datagram.
    func assignments(monotonicMicroseconds: UInt64) -> String {
        switch self {
        case .ready: "READY=1"
        case .reloading: "RELOADING=1\nMONOTONIC_USEC=\(monotonicMicroseconds)"
        case .stopping: "STOPPING=1"
        // A line break would start another assignment.
        case .status(let text): "STATUS=\(String(text.map { $0.isNewline ? " " : $0 }))"
        case .watchdog: "WATCHDOG=1"
        case .extendTimeout(let duration): "EXTEND_TIMEOUT_USEC=\(max(0, duration.microseconds))"
        }
    }
}

/// Datagrams for a service manager that does not read at the moment.
struct UnsentNotifications {
    private var datagrams: [[ServiceNotification]] = []
    /// How many notifications were dropped.
    var dropped = 0

    var first: [ServiceNotification]? { datagrams.first }

    mutating func add(_ notifications: [ServiceNotification]) {
        if !notifications.isEmpty { datagrams.append(notifications) }
    }

    mutating func removeFirst() { datagrams.removeFirst() }

    /// Keeps what the service manager waits for, and the last status. A keep-alive is of no use later, and of
    /// several reloads only the last counts.
    mutating func keepWhatLasts() {
        let all = datagrams.flatMap { $0 }
        var stages: [ServiceNotification] = []
        var status: ServiceNotification?
        for notification in all {
            switch notification {
            case .ready, .reloading, .stopping: stages.append(notification)
            case .status: status = notification
            case .watchdog, .extendTimeout: break
            }
        }
        stages = stages.suffix(2)
        // Each in a datagram of its own: in one datagram they would count as simultaneous.
        datagrams = stages.map { [$0] } + (status.map { [[$0]] } ?? [])
        dropped += all.count - datagrams.count
    }
}
