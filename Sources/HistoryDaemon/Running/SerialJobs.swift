import HistoryControl
import PersistentHistory
import ServiceLifecycle

/// Runs changes to the daemon one after the other, each to its end, even if the client that asked for it has
/// disconnected.
final class SerialJobs: Service {
    private typealias Job = @Sendable () async -> Void

    private let jobs: AsyncStream<Job>
    private let queue: AsyncStream<Job>.Continuation

    init() { (jobs, queue) = AsyncStream.makeStream() }

    func run() async throws {
        await withGracefulShutdownHandler {
            for await job in jobs { await onPool { await job() } }
        } onGracefulShutdown: {
            self.queue.finish()
        }
    }

    /// Runs a job when its turn comes, and waits for it.
    ///
    /// - Throws: What the job throws; `ControlError` with `.stopping` if the daemon stops before its turn.
    func perform<T: Sendable>(_ body: @escaping @Sendable () async throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            let job: Job = {
                do {
                    continuation.resume(returning: try await body())
                } catch {
                    continuation.resume(throwing: error)
                }
            }
            if case .terminated = queue.yield(job) {
                continuation.resume(throwing: ControlError(.stopping, "The daemon is stopping."))
            }
        }
    }
}
