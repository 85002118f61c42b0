import HistoryControl
import PersistentHistory
import ServiceLifecycle

/// Does what changes the daemon one after the other, and each to its end: also if the one who
/// asked for it has gone meanwhile.
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

    /// Has a job done when its turn comes, and waits for it.
    ///
    /// - Throws: What it throws; `ControlError` with `.stopping` if its turn does not come any more.
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
