internal import CPlatform
internal import DequeModule
internal import Dispatch

/// Threads for blocking work: what waits for a lock, a disk or another program, and what takes long.
///
/// There are as many as there is work at the same time, so work that hangs takes nothing from others. A thread that
/// has nothing to do ends after some seconds; one is kept, because the next commit needs it.
package final class BlockingThreads: Sendable {
    package static let shared = BlockingThreads()

    package typealias Work = @Sendable () -> Void

    fileprivate struct State {
        /// The last one to become idle comes first: its stack and its processor's caches are warm.
        var idle: [IdleThread] = []
        /// What no thread could be made for.
        var waiting: Deque<Work> = []
        var count = 0
        var retry: LoopTimer?
        /// Since when work waits.
        var lackingSince: ContinuousClock.Instant?
    }

    /// How long a thread waits for more work before it ends.
    private static let idleTime: Duration = .seconds(5)
    /// How long to wait before another thread is asked for, where the system has refused one.
    fileprivate static let retryInterval: Duration = .milliseconds(100)

    private let state = Locked(State())
    private let makeThread: @Sendable (@escaping @Sendable () -> Void) -> Int32

    /// - Parameter makeThread: Starts a thread; 0, or an errno.
    init(makeThread: @escaping @Sendable (@escaping @Sendable () -> Void) -> Int32 = { startThread($0) }) {
        self.makeThread = makeThread
    }

    /// How many threads there are, how much work waits because the system refuses another thread, and for how long some
    /// does.
    package var measures: (threads: Int, waiting: Int, lackTime: Duration) {
        state.withLock { ($0.count, $0.waiting.count, $0.lackingSince.map { .now - $0 } ?? .zero) }
    }

    /// Does work on a thread of its own.
    package func run(_ work: @escaping Work) {
        let idle = state.withLock { state in
            let idle = state.idle.popLast()
            if idle == nil { state.count += 1 }
            return idle
        }
        if let idle { idle.hand(work) } else { start(work) }
    }

    /// Does work on a thread of its own, and blocks the caller's no longer than some time.
    ///
    /// - Returns: Nil if it takes longer. The work goes on, and its result is not used.
    package func result<T: Sendable>(within limit: Duration, _ work: @escaping @Sendable () -> T) -> T? {
        let result = Locked<T?>(nil)
        let isDone = TimedSemaphore()
        run {
            let value = work()
            result.withLock { $0 = value }
            isDone.signal()
        }
        isDone.wait(atMost: limit)
        return result.withLock(\.self)
    }

    private func start(_ work: @escaping Work) {
        if tryToStart(work) { return }
        let idle = state.withLock { state -> IdleThread? in
            // One may have become idle since, and looks at what waits no more.
            if let idle = state.idle.popLast() { return idle }
            state.waiting.append(work)
            state.lackingSince = state.lackingSince ?? .now
            state.scheduleRetry(self)
            return nil
        }
        idle?.hand(work)
    }

    private func tryToStart(_ work: @escaping Work) -> Bool {
        if makeThread({ self.work(first: work) }) == 0 { return true }
        state.withLock { $0.count -= 1 }
        return false
    }

    /// Those threads that there are may hang: so others are asked for again.
    fileprivate func tryAgain() {
        state.withLock { $0.retry = nil }
        while let (work, idle) = state.withLock({ $0.takeWaiting() }) {
            if let idle {
                idle.hand(work)
            } else if !tryToStart(work) {
                return state.withLock { state in
                    state.waiting.prepend(work)
                    state.lackingSince = state.lackingSince ?? .now
                    state.scheduleRetry(self)
                }
            }
        }
    }

    private func work(first: @escaping Work) {
        // A short pause is not made longer by the kernel's slack, 50 µs.
        cplatform_exact_pauses()
        let thread = IdleThread()
        var work = first
        while true {
            work()
            let (next, isLast) = state.withLock { state -> (Work?, Bool) in
                if let next = state.waiting.popFirst() {
                    if state.waiting.isEmpty { state.lackingSince = nil }
                    return (next, false)
                }
                state.idle.append(thread)
                return (nil, state.idle.count == 1)
            }
            guard let next = next ?? thread.wait(atMost: isLast ? nil : Self.idleTime) ?? leave(thread) else {
                return
            }
            work = next
        }
    }

    /// - Returns: Nil if the thread is to end; else what it was given at the last moment.
    private func leave(_ thread: IdleThread) -> Work? {
        let isGivenWork = state.withLock { state in
            guard let index = state.idle.firstIndex(where: { $0 === thread }) else { return true }
            state.idle.remove(at: index)
            state.count -= 1
            return false
        }
        return isGivenWork ? thread.wait(atMost: nil) : nil
    }
}

extension BlockingThreads.State {
    /// The work that has waited longest, with a thread that is idle, or is to be made.
    fileprivate mutating func takeWaiting() -> (BlockingThreads.Work, IdleThread?)? {
        guard let work = waiting.popFirst() else { return nil }
        if waiting.isEmpty { lackingSince = nil }
        let thread = idle.popLast()
        if thread == nil { count += 1 }
        return (work, thread)
    }

    fileprivate mutating func scheduleRetry(_ threads: BlockingThreads) {
        guard retry == nil else { return }
        retry = try? HistoryLoop.shared().schedule(after: BlockingThreads.retryInterval) { threads.tryAgain() }
    }
}

/// A thread that waits for work.
private final class IdleThread: Sendable {
    private let work = Locked<BlockingThreads.Work?>(nil)
    private let isHanded = TimedSemaphore()

    func hand(_ work: @escaping BlockingThreads.Work) {
        self.work.withLock { $0 = work }
        isHanded.signal()
    }

    /// - Returns: Nil if the time is over.
    func wait(atMost time: Duration?) -> BlockingThreads.Work? {
        isHanded.wait(atMost: time) ? work.withLock { $0.take() } : nil
    }
}

/// What threads are to do that sleep while there is nothing.
package final class ThreadQueue<Element: Sendable>: Sendable {
    private let elements = Locked<Deque<Element>>([])
    private let count = DispatchSemaphore(value: 0)

    package init() {}

    package func add(_ element: Element) {
        elements.withLock { $0.append(element) }
        count.signal()
    }

    /// Blocks the thread until there is something.
    package func next() -> Element {
        while true {
            count.wait()
            if let element = elements.withLock({ $0.popFirst() }) { return element }
        }
    }
}

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
