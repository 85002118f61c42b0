import PersistentHistory
import ServiceLifecycle

/// Runs services that come and go while the daemon lives: plugins' processes, stores.
///
/// At a graceful shutdown each of them is told, as a service of the daemon itself would be.
final class ServiceHost: Service {
    /// A service that runs here.
    struct Guest: Sendable {
        fileprivate let service: any Service
        fileprivate let cancellation = StopSignal()
        private let end = StartGate()

        fileprivate init(_ service: any Service) { self.service = service }

        /// Returns when the service has ended, or the task is cancelled.
        func ended() async { await end.wait() }

        /// Cancels the service, which takes no longer than it must to end then.
        func cancel() { cancellation.request() }

        fileprivate func run() async throws {
            defer { hasEnded() }
            do {
                try await cancellation.cancelling { try await service.run() }
            } catch  where cancellation.isRequested {
                // That is how it ends then.
            }
        }

        fileprivate func hasEnded() { end.open() }
    }

    private let arrivals: AsyncStream<Guest>
    private let door: AsyncStream<Guest>.Continuation

    init() { (arrivals, door) = AsyncStream.makeStream() }

    /// Begins a service, now or when the host itself runs.
    func start(_ service: any Service) -> Guest {
        let guest = Guest(service)
        // After the host was closed, the service is never started, and counts as ended.
        if case .terminated = door.yield(guest) { guest.hasEnded() }
        return guest
    }

    /// - Throws: What a service throws; then all are cancelled.
    func run() async throws {
        try await withGracefulShutdownHandler {
            try await withThrowingDiscardingTaskGroup { group in
                for await guest in arrivals {
                    group.addTask {
                        do {
                            try await guest.run()
                        } catch {
                            self.door.finish()
                            throw error
                        }
                    }
                }
            }
        } onGracefulShutdown: {
            self.door.finish()
        }
    }
}
