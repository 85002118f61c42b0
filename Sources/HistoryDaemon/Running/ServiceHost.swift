import ServiceLifecycle

/// Runs services that come and go while the daemon lives: plugins' processes, stores.
///
/// At a graceful shutdown each of them is told, as a service of the daemon itself would be.
final class ServiceHost: Service {
    private struct Guest: Sendable {
        let service: any Service
        let end: StartGate
    }

    private let arrivals: AsyncStream<Guest>
    private let door: AsyncStream<Guest>.Continuation

    init() { (arrivals, door) = AsyncStream.makeStream() }

    /// Begins a service, now or when the host itself runs.
    ///
    /// - Returns: A gate that opens when the service has ended.
    func start(_ service: any Service) -> StartGate {
        let guest = Guest(service: service, end: StartGate())
        // After the door was closed it is never begun, and has ended.
        if case .terminated = door.yield(guest) { guest.end.open() }
        return guest.end
    }

    /// - Throws: What a service throws; then all are cancelled.
    func run() async throws {
        try await withGracefulShutdownHandler {
            try await withThrowingDiscardingTaskGroup { group in
                for await guest in arrivals {
                    group.addTask {
                        defer { guest.end.open() }
                        do {
                            try await guest.service.run()
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
