import Glibc
import HistoryConfiguration
import HistoryDaemon
import Logging
import PersistentHistory

/// A life of the daemon: as `historyd` itself begins it, with what the service manager hands over.
enum Life {
    /// What the service manager tells a process of its own.
    static func prepare(_ files: Files) {
        setenv("NOTIFY_SOCKET", files.notifications, 1)
        setenv("WATCHDOG_USEC", "\(ServiceManager.watchdog / 1000)", 1)
    }

    /// Serves until SIGTERM.
    static func run(_ files: Files) async throws {
        let level = LiveLogLevel(.trace)
        LogOutput.journal.bootstrap(level: level)
        let logger = Logger(label: "historyd")
        let notifier = ServiceNotifier(logger: logger)
        let loaded = try LoadedConfiguration.load(file: files.configuration, checkingCommands: true)
        let folder = try await StateFolder.waiting(
            for: files.state, logger: logger, notifier: notifier, readOnlyLimit: .seconds(10))
        let daemon = try Daemon(loaded, stateFolder: folder, logger: logger, level: level, notifier: notifier)
        let control = try ControlListener(path: files.control, passed: PassedSockets(environment: [:]))
        try await daemon.run(control: control)
    }
}
