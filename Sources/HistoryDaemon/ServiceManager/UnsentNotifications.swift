/// Datagrams for a service manager that does not read at the moment.
struct UnsentNotifications {
    private var datagrams: [[ServiceNotification]] = []
    /// How many notifications were given up.
    var dropped = 0

    var first: [ServiceNotification]? { datagrams.first }

    mutating func add(_ notifications: [ServiceNotification]) {
        if !notifications.isEmpty { datagrams.append(notifications) }
    }

    mutating func removeFirst() { datagrams.removeFirst() }

    /// Keeps what the service manager waits for, and the last status. A sign of life is for its moment, and
    /// of several reloads the last one counts.
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
        // Each in a datagram of its own: together they would be one moment's.
        datagrams = stages.map { [$0] } + (status.map { [[$0]] } ?? [])
        dropped += all.count - datagrams.count
    }
}
