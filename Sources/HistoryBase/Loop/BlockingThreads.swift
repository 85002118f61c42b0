internal import CPlatform
internal import DequeModule
internal import Dispatch

/// Threads for blocking work: work that waits for a lock, a disk or another program, or that takes long.
///
/// There are as many threads as there is concurrent work, so work that hangs delays no other. An idle
/// thread ends after some seconds. One is kept, because the next commit needs it.
package final class BlockingThreads: Sendable {
    package static let shared = BlockingThreads()

    package typealias Work = @Sendable () -> Void

    fileprivate struct State {
        /// The thread that became idle last is used first: its stack and its processor's caches are warm.
        var idle: [IdleThread] = []
        /// Work for which no thread could be created.
        var waiting: Deque<Work> = []
        var count = 0
        var willRetry = false
        /// Since when work has been waiting.
        var lackingSince: ContinuousClock.Instant?
    }

    private let state = Locked(State())
    /// How long a thread waits for more work before it ends.
    private let idleTime: Duration
    private let makeThread: @Sendable (@escaping Work) -> Int32
    fileprivate let callLater: @Sendable (@escaping Work) -> Bool

    /// - Parameters:
    ///   - idleTime: How long a thread waits for more work before it ends.
    ///   - makeThread: Starts a thread; 0, or an errno.
    ///   - callLater: Calls a function when another attempt may be made, after the system has refused a thread;
    ///     false if it cannot.
    init(
        idleTime: Duration = .seconds(5),
        makeThread: @escaping @Sendable (@escaping Work) -> Int32 = { startThread($0) },
        callLater: @escaping @Sendable (@escaping Work) -> Bool = { attempt in
            (try? HistoryLoop.shared().schedule(after: .milliseconds(100)) { attempt() }) != nil
        }
    ) {
        self.idleTime = idleTime
        self.makeThread = makeThread
        self.callLater = callLater
    }

    /// How many threads exist, how many of them are idle, how much work waits because the system refuses
    /// another thread, and for how long the oldest of it has waited.
    package var measures: (threads: Int, idle: Int, waiting: Int, lackTime: Duration) {
        state.withLock {
            ($0.count, $0.idle.count, $0.waiting.count, $0.lackingSince.map { .now - $0 } ?? .zero)
        }
    }

    /// Runs work on a blocking thread.
    package func run(_ work: @escaping Work) {
        let idle = state.withLock { state in
            let idle = state.idle.popLast()
            if idle == nil { state.count += 1 }
            return idle
        }
        if let idle { idle.hand(work) } else { start(work) }
    }

    /// Runs work on a blocking thread, and blocks the caller's thread for a limited time.
    ///
    /// - Returns: Nil if it takes longer. The work continues, and its result is discarded.
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
            // A thread that has become idle since then no longer looks at waiting work.
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

    /// Existing threads may hang, so another one is requested again.
    fileprivate func tryAgain() {
        state.withLock { $0.willRetry = false }
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
        // Keeps the kernel's timer slack of 50 µs from prolonging short pauses.
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
            guard let next = next ?? thread.wait(atMost: isLast ? nil : idleTime) ?? leave(thread) else {
                return
            }
            work = next
        }
    }

    /// - Returns: Nil if the thread must end; otherwise work that it was given at the last moment.
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
    /// The work that has waited longest, with a thread that is idle or has to be created.
    fileprivate mutating func takeWaiting() -> (BlockingThreads.Work, IdleThread?)? {
        guard let work = waiting.popFirst() else { return nil }
        if waiting.isEmpty { lackingSince = nil }
        let thread = idle.popLast()
        if thread == nil { count += 1 }
        return (work, thread)
    }

    fileprivate mutating func scheduleRetry(_ threads: BlockingThreads) {
        guard !willRetry else { return }
        willRetry = threads.callLater { threads.tryAgain() }
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

    /// - Returns: Nil on timeout.
    func wait(atMost time: Duration?) -> BlockingThreads.Work? {
        isHanded.wait(atMost: time) ? work.withLock { $0.take() } : nil
    }
}

/// A queue of work for threads that block while it is empty.
package final class ThreadQueue<Element: Sendable>: Sendable {
    private let elements = Locked<Deque<Element>>([])
    private let count = DispatchSemaphore(value: 0)

    package init() {}

    package func add(_ element: Element) {
        elements.withLock { $0.append(element) }
        count.signal()
    }

    /// Blocks the thread until there is an element.
    package func next() -> Element {
        while true {
            count.wait()
            if let element = elements.withLock({ $0.popFirst() }) { return element }
        }
    }
}

/// Runs blocking work on a blocking thread: see `BlockingThreads`.
///
/// The body is `@concurrent` and `@Sendable`, so it has no isolation: on the loop it would block
/// everything else.
@concurrent package func onPool<T: Sendable, Failure: Error>(
    _ body: @escaping @concurrent @Sendable () async throws(Failure) -> T
) async throws(Failure) -> T {
    let result = await withTaskExecutorPreference(BlockingExecutor.shared) { () async -> Result<T, Failure> in
        do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
    }
    return try result.get()
}

/// Call this in a function that may wait for a lock, a disk or another program: on the loop, all stores
/// would wait with it. Debug builds trap there.
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
