internal import CPlatform
internal import Glibc

/// Runs the jobs of an actor in order, on a thread that may wait: for a lock, for the disk, for another
/// process.
///
/// It takes a thread when there is work and gives it back when all is done. So thousands of idle actors
/// have none, and one that waits delays no other. It keeps the thread during a short pause, which on the
/// loop would take two more wake-ups.
package final class SerialThreadExecutor: SerialExecutor {
    private enum Job {
        case task(UnownedJob)
        case handler(@Sendable () -> Void)
    }

    private struct State {
        var jobs: [Job] = []
        /// Handlers of short pauses, the earliest last.
        var pauses = LoopTimers<@Sendable () -> Void>()
        /// Whether it has a thread, which may be waiting for the end of a pause.
        var isRunning = false
        var isPausing = false
        /// The thread that runs the jobs, and since when it runs the current one.
        var thread: pthread_t?
        var task: pid_t = 0
        var began: SuspendingClock.Instant?
        /// The processor time used at the start of the job, if measured.
        var computed: Int64 = 0
        /// What `standstill` last saw of a job, and since when that is unchanged.
        var seen: (began: SuspendingClock.Instant, computed: Int64, since: SuspendingClock.Instant)?
    }

    /// Longer pauses use a timer of the loop.
    package static let longestPause: Duration = .milliseconds(1)

    private let state = Locked(State())
    private let pauseEnd = TimedSemaphore()

    private let measuresWork: Bool

    package init() { measuresWork = false }

    /// - Parameter measuresWork: Whether `waitingTime` is used. It takes a system call for each job.
    package init(measuresWork: Bool) { self.measuresWork = measuresWork }

    /// How long the current job has been waiting: it has run for this time, and hardly computed. Nil if
    /// there is no job, or it computes.
    package var waitingTime: Duration? {
        state.withLock { state in
            guard measuresWork, let thread = state.thread, let began = state.began else { return nil }
            let time = SuspendingClock.now - began
            let computed = Duration.nanoseconds(Self.computedTime(of: thread) - state.computed)
            return computed * 50 < time ? time : nil
        }
    }

    /// How long the current job has run; nil if there is none.
    package var busyTime: Duration? { state.withLock { $0.began }.map { .now - $0 } }

    /// How long the current job has neither ended, nor computed, nor waited for a disk; nil if there is none.
    /// The time counts from the first call that saw this state.
    package func standstill() -> Duration? {
        state.withLock { state in
            guard let thread = state.thread, let began = state.began else {
                state.seen = nil
                return nil
            }
            // The thread exists: it sets this to nil before it ends.
            let computed = Self.computedTime(of: thread)
            if let seen = state.seen, seen.began == began, seen.computed == computed,
                !Self.waitsForDisk(state.task)
            {
                return .now - seen.since
            }
            state.seen = (began, computed, .now)
            return .zero
        }
    }

    private static func computedTime(of thread: pthread_t) -> Int64 {
        var (clock, time) = (clockid_t(), timespec())
        guard pthread_getcpuclockid(thread, &clock) == 0, clock_gettime(clock, &time) == 0 else { return 0 }
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Source: proc_pid_stat(5).
    private static func waitsForDisk(_ task: pid_t) -> Bool {
        let text = (try? AtomicFile.read("/proc/self/task/\(task)/stat")) ?? nil
        guard let text, let end = text.lastIndex(of: UInt8(ascii: ")")), end + 2 < text.count else {
            return false
        }
        return text[end + 2] == UInt8(ascii: "D")
    }

    package func enqueue(_ job: consuming ExecutorJob) { add(.task(UnownedJob(job))) }

    /// Calls a handler in order. It counts as isolated to the actor.
    package func perform(_ handler: @escaping @Sendable () -> Void) { add(.handler(handler)) }

    /// Calls a handler after a short pause, in which other jobs run. It counts as isolated to the actor.
    package func perform(after pause: Duration, _ handler: @escaping @Sendable () -> Void) {
        let end = LoopClock.monotonicNanoseconds + pause.nanoseconds
        change { $0.pauses.add(handler, $0.pauses.newKey(at: end)) }
    }

    private func add(_ job: Job) { change { $0.jobs.append(job) } }

    private func change(_ body: (inout State) -> Void) {
        let (starts, wakes) = state.withLock { state in
            body(&state)
            defer { (state.isRunning, state.isPausing) = (true, false) }
            return (!state.isRunning, state.isPausing)
        }
        if starts { BlockingThreads.shared.run { self.run() } }
        if wakes { pauseEnd.signal() }
    }

    private func run() {
        var jobs: [Job] = []
        let task = cplatform_thread()
        while true {
            let pause = state.withLock { state -> Duration? in
                swap(&state.jobs, &jobs)
                var pause: Duration?
                if let earliest = state.pauses.earliest {
                    let now = LoopClock.monotonicNanoseconds
                    jobs += state.pauses.takeDue(at: now).map { .handler($0) }
                    if jobs.isEmpty { pause = .nanoseconds(earliest - now) }
                }
                state.isRunning = !jobs.isEmpty || pause != nil
                state.isPausing = pause != nil
                (state.thread, state.began) = jobs.isEmpty ? (nil, nil) : (pthread_self(), .now)
                state.task = task
                if measuresWork, !jobs.isEmpty { state.computed = Self.computedTime(of: pthread_self()) }
                return pause
            }
            if let pause {
                // If it is woken just at the deadline, the next pause ends early, which does no harm.
                pauseEnd.wait(atMost: pause)
                continue
            }
            if jobs.isEmpty { return }
            for job in jobs {
                switch job {
                case .task(let job): job.runSynchronously(on: asUnownedSerialExecutor())
                case .handler(let handler): handler()
                }
            }
            jobs.removeAll(keepingCapacity: true)
        }
    }

    package func checkIsolated() {
        if isIsolatingCurrentContext() != true {
            fatalError("This is not the thread that runs the actor's jobs.")
        }
    }

    package func isIsolatingCurrentContext() -> Bool? {
        state.withLock { $0.thread }.map { pthread_equal($0, pthread_self()) != 0 } ?? false
    }
}
