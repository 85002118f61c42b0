import PersistentHistory
import ServiceLifecycle

/// Runs services that start and end while the daemon lives: plugins' processes, stores.
///
/// At a graceful shutdown each of them is notified, as a service of the daemon itself would be.
final class ServiceHost: Service {
    /// A service that runs here.
    struct HostedService: Sendable {
        fileprivate let service: any Service
        fileprivate let cancellation = OneShotEvent()
        private let end = OneShotEvent()

        fileprivate init(_ service: any Service) { self.service = service }

        var hasEnded: Bool { end.isSignaled }

        /// Returns when the service has ended, or the task is cancelled.
        func ended() async { await end.wait() }

        /// Cancels the service, which then ends as soon as it can.
        func cancel() { cancellation.signal() }

        fileprivate func run() async throws {
            defer { noteEnd() }
            do {
                try await cancellation.cancelling { try await service.run() }
            } catch  where cancellation.isSignaled {
                // Cancellation is the expected end.
            }
        }

        fileprivate func noteEnd() { end.signal() }
    }

    private let arrivals: AsyncStream<HostedService>
    private let continuation: AsyncStream<HostedService>.Continuation

    init() { (arrivals, continuation) = AsyncStream.makeStream() }

    /// Starts a service, now or when the host itself runs.
    func start(_ service: any Service) -> HostedService {
        let hosted = HostedService(service)
        // After the host has closed, a service is never started, and counts as ended.
        if case .terminated = continuation.yield(hosted) { hosted.noteEnd() }
        return hosted
    }

    /// - Throws: What a service throws, after all others are cancelled.
    func run() async throws {
        try await withGracefulShutdownHandler {
            try await withThrowingDiscardingTaskGroup { group in
                for await hosted in arrivals {
                    group.addTask {
                        do {
                            try await hosted.run()
                        } catch {
                            self.continuation.finish()
                            throw error
                        }
                    }
                }
            }
        } onGracefulShutdown: {
            self.continuation.finish()
        }
    }
}
