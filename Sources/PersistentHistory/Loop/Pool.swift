internal import Glibc

/// Does work that may take long, such as copying a store, on other threads: on the loop it would keep
/// all others waiting.
package func onPool<T>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> T
) async rethrows -> T {
    try await withTaskExecutorPreference(WorkerPool.shared, isolation: isolation) {
        // The preference alone moves no task: it counts from the next hop on, and the body may make none.
        await Hop.shared.arrive()
        return try await body()
    }
}

/// To go to an actor is what moves a task; it then stays on the thread to which it has come.
private actor Hop {
    static let shared = Hop()

    func arrive() {}
}

/// As many threads as there are processors, made when there is work for the first time.
///
/// libdispatch's, which Swift would use, have a monitor that looks at them each second from then on, for as
/// long as the process lives; these sleep while there is nothing to do.
private final class WorkerPool: TaskExecutor {
    static let shared = WorkerPool()

    private let jobs = ThreadQueue<UnownedJob>()
    private let threads = Locked(0)

    private init() {
        for _ in 0..<max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN))) {
            if startThread({ self.work() }) == 0 { threads.withLock { $0 += 1 } }
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        // Where the system gives no thread, it has to do with those that there are.
        guard threads.withLock({ $0 > 0 }) else { return globalConcurrentExecutor.enqueue(job) }
        jobs.add(UnownedJob(job))
    }

    private func work() {
        while true { jobs.next().runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
