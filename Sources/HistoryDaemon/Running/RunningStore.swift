import HistoryConfiguration
import PersistentHistory
import ServiceLifecycle

/// A store that is served.
struct RunningStore: Sendable {
    let configuration: StoreConfiguration
    let served: ServedStore
    /// Stays when the store is started again with another configuration.
    let control: StoreControl
    let stop: OneShotEvent
    /// Opens when it is open, or when it is certain that there is nothing to open yet.
    let up: OneShotEvent
    let service: ServiceHost.HostedService

    var name: String { configuration.name }

    /// Ends the service of it, and waits for that; but not for a disk or a lock, for which its successor alone waits.
    ///
    /// - Parameter timeout: How long calls in flight may take to end by themselves.
    func finish(within timeout: Duration) async {
        stop.signal()
        await wait(atMost: timeout) { [service] in await service.ended() }
        service.cancel()
        await wait(atMost: Self.cancellationTime) { [service] in await service.ended() }
    }

    /// What was cancelled ends within this, unless it waits.
    static let cancellationTime: Duration = .seconds(1)
}

/// Serves one store. Where it cannot be watched it waits, and the others do not wait for it.
struct StoreService: Service {
    let runner: StoreRunner
    let watch: @Sendable () throws -> StoreSignals
    let reporter: any PipelineReporter
    let path: String
    let stop: OneShotEvent
    let gate: OneShotEvent
    /// What served the store before, if that has not ended.
    let predecessor: ServiceHost.HostedService?
    /// Called at a stop of the daemon.
    let isStopping: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            await awaitPredecessor()
            var pause = GrowingPause(first: .milliseconds(500))
            while !stop.isSignaled, !Task.isCancelled {
                do {
                    // To follow the store's path may wait for a disk.
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

    /// Two would use one place in the history, and the same contexts.
    private func awaitPredecessor() async {
        guard let predecessor, !predecessor.hasEnded else { return }
        reporter.report(
            .storeLost(
                HistoryError(
                    .storeBusy,
                    "The store \"\(path)\" is not served as it is configured now: what served it before waits for a disk or a lock.",
                    hint: "It follows by itself when that has ended.")))
        gate.signal()
        // Thrown is only that it is to stop.
        _ = try? await stop.cancelling { await predecessor.ended() }
    }
}
