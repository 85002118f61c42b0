import HistoryConfiguration
import PersistentHistory
import ServiceLifecycle

/// A store that is served.
struct RunningStore: Sendable {
    let configuration: StoreConfiguration
    let served: ServedStore
    /// Kept when the store is restarted with another configuration.
    let control: StoreControl
    let stop: OneShotEvent
    /// Signaled when the store is open, or when it is certain that there is nothing to open yet.
    let up: OneShotEvent
    let service: ServiceHost.HostedService

    var name: String { configuration.name }

    /// Ends the store's service, and waits for that. If the service waits for a disk or a lock, only its
    /// successor waits for it.
    ///
    /// - Parameter timeout: How long calls in flight may take to end by themselves.
    func finish(within timeout: Duration) async {
        stop.signal()
        await wait(atMost: timeout) { [service] in await service.ended() }
        service.cancel()
        await wait(atMost: Self.cancellationTime) { [service] in await service.ended() }
    }

    /// Cancelled work ends within this time, unless it waits for a disk or a lock.
    static let cancellationTime: Duration = .seconds(1)
}

/// Serves one store. If the store cannot be watched yet, only this service waits.
struct StoreService: Service {
    let runner: StoreRunner
    let watch: @Sendable () throws -> StoreSignals
    let reporter: any PipelineReporter
    let path: String
    let stop: OneShotEvent
    let gate: OneShotEvent
    /// The service that served the store before, if it has not ended.
    let predecessor: ServiceHost.HostedService?
    /// Called at a stop of the daemon.
    let isStopping: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            await awaitPredecessor()
            var pause = GrowingPause(first: .milliseconds(500))
            while !stop.isSignaled, !Task.isCancelled {
                do {
                    // Resolving the store's path may wait for a disk.
                    let signals = try await onPool { () async throws -> StoreSignals in try watch() }
                    return try await runner.run(watching: signals) { gate.signal() }
                } catch let error as ObserverError {
                    reporter.report(.watchFailed(error))
                    gate.signal()
                    await stop.sleepUntilRightsChange(of: path, atMost: pause.next())
                }
            }
        } onGracefulShutdown: {
            stop.signal()
            isStopping()
        }
    }

    /// Waits for the previous service: two would use one position in the history, and the same contexts.
    private func awaitPredecessor() async {
        guard let predecessor, !predecessor.hasEnded else { return }
        reporter.report(
            .storeLost(
                HistoryError(
                    .storeBusy,
                    "The store \"\(path)\" is not served as it is configured now: what served it before waits for a disk or a lock.",
                    hint: "It follows by itself when that has ended.")))
        gate.signal()
        // It throws only when it is asked to stop.
        _ = try? await stop.cancelling { await predecessor.ended() }
    }
}
