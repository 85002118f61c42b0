import PersistentHistory
import ServiceLifecycle

/// Reads the configuration again at SIGHUP; what comes of it is in the journal.
struct ReloadService: Service {
    let signals: SignalLine
    let steward: Steward

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            while try await signals.next() != nil {
                do {
                    _ = try await steward.reload()
                } catch {
                    // Told already, with all that is wrong: the old one stays in force.
                }
            }
        }
    }
}

/// Ends at SIGTERM or SIGINT, and with it the daemon.
struct StopService: Service {
    let signals: SignalLine

    func run() async throws {
        try await cancelWhenGracefulShutdown { _ = try await signals.next() }
    }
}
