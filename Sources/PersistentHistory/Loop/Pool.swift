/// Does blocking work on a thread of its own: see `BlockingThreads`.
///
/// The body is `@concurrent` and `@Sendable`, so it has no isolation: on the loop it would keep all others
/// waiting.
@concurrent package func onPool<T: Sendable, Failure: Error>(
    _ body: @escaping @concurrent @Sendable () async throws(Failure) -> T
) async throws(Failure) -> T {
    let result = await withTaskExecutorPreference(BlockingExecutor.shared) { () async -> Result<T, Failure> in
        do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
    }
    return try result.get()
}

/// Is called by what may wait for a lock, a disk or another program: on the loop, all stores would wait with it. Debug
/// builds trap there.
@inline(__always) package func assertMayWait(_ function: StaticString = #function) {
    assert(!HistoryLoop.isCurrent, "\(function) may wait, and is called on the loop.")
}

/// Runs each part of a task on a blocking thread.
package final class BlockingExecutor: TaskExecutor {
    package static let shared = BlockingExecutor()

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        BlockingThreads.shared.run { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
