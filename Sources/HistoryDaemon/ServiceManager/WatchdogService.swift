package import Logging
import PersistentHistory
import ServiceLifecycle

/// Feeds the service manager's watchdog, but only while the daemon makes progress.
///
/// Twice in each interval it runs the check; when the check returns, it feeds the watchdog. If the check throws
/// or does not return, the watchdog is not fed, and the service manager restarts the daemon: that a process is
/// alive does not prove that it works.
package struct WatchdogService<C: Clock & Sendable>: Service where C.Duration == Duration {
    private let interval: Duration?
    private let notifier: any ServiceNotifying
    private let logger: Logger
    private let clock: C
    private let check: @Sendable () async throws -> Void

    /// - Parameters:
    ///   - interval: The service manager's; nil for no watchdog (see ``ServiceNotifier/watchdogInterval()``).
    ///   - check: Returns once the pipeline has answered. Should take far less than half the interval.
    package init(
        interval: Duration?, notifier: any ServiceNotifying, logger: Logger,
        clock: C = LoopClock(), check: @escaping @Sendable () async throws -> Void
    ) {
        self.interval = interval
        self.notifier = notifier
        self.logger = logger
        self.clock = clock
        self.check = check
    }

    package func run() async throws {
        guard let interval else {
            // A service that returns would end the whole group.
            try await gracefulShutdown()
            return
        }
        try await cancelWhenGracefulShutdown { try await feed(every: interval / 2) }
    }

    private func feed(every pause: Duration) async throws {
        var isStuck = false
        while true {
            do {
                try await check()
                notifier.notify(.watchdog)
                isStuck = false
            } catch {
                // Reported once: the service manager reports the restart that follows.
                if !isStuck, !Task.isCancelled {
                    logger.report(
                        .pipelineStuck, "The pipeline did not answer; the daemon stops notifying the watchdog.",
                        error: error)
                }
                isStuck = true
            }
            do {
                try await clock.sleep(for: pause)
            } catch {
                return  // cancelled: the daemon stops
            }
        }
    }
}
