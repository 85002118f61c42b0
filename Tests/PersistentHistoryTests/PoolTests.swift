import Glibc
import Testing

@testable import PersistentHistory

/// What takes long leaves the thread that runs all else.
@Suite(.timeLimit(.minutes(60))) struct PoolTests {
    /// As the loop is: it runs all tasks that prefer nothing else on one thread.
    private final class OneThread: TaskExecutor {
        private let jobs = ThreadQueue<UnownedJob?>()

        init() {
            let jobs = jobs
            let status = startThread { [weak self] in
                while let job = jobs.next(), let self { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
            }
            precondition(status == 0)
        }

        func enqueue(_ job: consuming ExecutorJob) { jobs.add(UnownedJob(job)) }

        func end() { jobs.add(nil) }
    }

    private func isElsewhere(_ look: @escaping @Sendable () async -> (outside: UInt, inside: UInt)) async
        -> Bool
    {
        let loop = OneThread()
        defer { loop.end() }
        let (outside, inside) = await withTaskGroup { group in
            group.addTask(executorPreference: loop) { await look() }
            return await group.next() ?? (0, 0)
        }
        return inside != outside
    }

    private static var thread: UInt { UInt(pthread_self()) }

    @Test func whatIsNobodysIsDoneElsewhere() async {
        #expect(
            await isElsewhere {
                let outside = Self.thread
                return (outside, await onPool { Self.thread })
            })
    }

    private actor Somebody {
        func look() async -> (outside: UInt, inside: UInt) {
            let outside = PoolTests.thread
            return (outside, await onPool { PoolTests.thread })
        }
    }

    @Test func whatIsAnActorsIsDoneElsewhere() async {
        let somebody = Somebody()
        #expect(await isElsewhere { await somebody.look() })
    }
}
