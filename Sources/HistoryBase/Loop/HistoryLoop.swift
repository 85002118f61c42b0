internal import CPlatform
internal import Glibc

/// One thread that sleeps in epoll(7) until a descriptor is ready, a timer is due or a task can continue.
///
/// A program can run all its tasks on this thread (`carry`). The way from a commit to a hook leads
/// through several tasks. On a thread pool each may wake on another processor, and waking a sleeping
/// processor takes longer than all of the work. Here the thread that the kernel woke does everything, and
/// nothing wakes it unnecessarily. Work that may block belongs on other threads (`onPool`): each job is
/// timed, and one that takes long is recorded as a stall.
package final class HistoryLoop: Sendable {
    /// The process's only loop. It lives as long as the process.
    ///
    /// - Throws: `SystemError` if the kernel has no descriptors left for it.
    package static func shared() throws(SystemError) -> HistoryLoop { try made.get() }

    /// In a program that does not call `carry`, it has its own thread.
    private static let made = Result { () throws(SystemError) in
        let loop = try HistoryLoop()
        if carries.withLock({ $0 }) { return loop }
        let number = startThread { loop.run(until: nil) }
        if number != 0 { throw SystemError(call: "pthread_create", number: number) }
        return loop
    }

    private static let carries = Locked(false)

    /// Runs a program and all its tasks on this thread until the program ends.
    ///
    /// Call it once, before anything else is started.
    ///
    /// - Throws: What the program throws; `SystemError` if the kernel has no descriptors left.
    package static func carry(_ program: @escaping @Sendable () async throws -> Void) throws {
        carries.withLock { $0 = true }
        let loop = try shared()
        // This function is called from C and cannot capture anything: it finds the only loop itself.
        cplatform_hand_over_jobs { job in
            try? HistoryLoop.shared().add(.task(unsafeBitCast(job, to: UnownedJob.self)))
        }
        let end = Locked<Result<Void, any Error>?>(nil)
        // The root of all tasks: no task above it could wait for it.
        Task {
            let result: Result<Void, any Error>
            do { result = .success(try await program()) } catch { result = .failure(error) }
            end.withLock { $0 = result }
        }
        loop.run(until: end)
        try end.withLock { $0 }?.get()
    }

    package enum Interest: Sendable { case reading, writing, exceptions }

    /// Called directly by the loop's thread: no task is resumed in between.
    package typealias Handler = @LoopActor @Sendable () -> Void

    private enum Job {
        /// A part of a task without an executor.
        case task(UnownedJob)
        /// A part of a task on the loop's actor.
        case isolated(UnownedJob)
        case handler(Handler, LoopPlace)
    }

    private enum Sleeper {
        case task(CheckedContinuation<Void, Never>)
        case handler(Handler, LoopPlace)
    }

    private struct State {
        var jobs: [Job] = []
        var timers = LoopTimers<Sleeper>()
        /// By a number that is never reused, so that a late event does not reach the next descriptor with
        /// the same number.
        var descriptors: [UInt64: (handler: Handler, place: LoopPlace)] = [:]
        var lastKey = LoopSelector.lastOwnKey
        /// The thread sleeps or is about to, and must be woken for a job or an earlier timer.
        var isAsleep = false
        var stalls = (count: 0, longest: Duration.zero)
        var stallObserver: (@Sendable (LoopStall) -> Void)?

        /// - Returns: Whether to wake the thread: it may sleep for too long.
        mutating func addTimer(_ sleeper: Sleeper, _ key: LoopTimerKey) -> Bool {
            let isEarliest = key.deadline < timers.earliest ?? .max
            timers.add(sleeper, key)
            return isEarliest && isAsleep.take()
        }
    }

    private let selector: LoopSelector
    private let state = Locked(State())

    private init() throws(SystemError) { selector = try LoopSelector() }

    // MARK: Tasks

    /// Runs a part of a task of the loop's actor.
    func enqueue(_ job: UnownedJob) { add(.isolated(job)) }

    /// Calls the handler soon, after everything that is ready now.
    package func soon(_ handler: @escaping Handler, file: StaticString = #fileID, line: UInt = #line) {
        add(.handler(handler, LoopPlace(file: file, line: line)))
    }

    /// Whether the caller is on the loop's thread.
    static var isCurrent: Bool { pthread_getspecific(ownThread) != nil }

    /// Set on the loop's thread only.
    private static let ownThread: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private func add(_ job: Job) {
        let wakes = state.withLock { state in
            state.jobs.append(job)
            return state.isAsleep.take()
        }
        if wakes { selector.wake() }
    }

    // MARK: Descriptors

    /// Calls the handler at each edge of a descriptor's readiness.
    ///
    /// - Returns: The key to unregister it.
    func register(
        _ descriptor: Int32, for interest: Interest, place: LoopPlace, _ handler: @escaping Handler
    ) throws(SystemError) -> UInt64 {
        let key = state.withLock { state in
            state.lastKey += 1
            state.descriptors[state.lastKey] = (handler, place)
            return state.lastKey
        }
        do throws(SystemError) {
            try selector.add(descriptor, for: interest, as: key)
        } catch {
            unregister(key)
            throw error
        }
        return key
    }

    /// The kernel removes a closed descriptor itself.
    func unregister(_ key: UInt64) { _ = state.withLock { $0.descriptors.removeValue(forKey: key) } }

    // MARK: Time

    func sleep(for duration: Duration) async throws(CancellationError) {
        let deadline = LoopSelector.now + duration.nanoseconds
        let key = state.withLock { $0.timers.newKey(at: deadline) }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isOver, wakes) = state.withLock { state in
                    if Task.isCancelled { return (true, false) }
                    return (false, state.addTimer(.task(continuation), key))
                }
                if isOver { continuation.resume() }
                if wakes { selector.wake() }
            }
        } onCancel: {
            if case .task(let continuation) = state.withLock({ $0.timers.remove(key) }) {
                continuation.resume()
            }
        }
        if Task.isCancelled { throw CancellationError() }
    }

    /// Calls the handler after some time.
    package func schedule(
        after duration: Duration, file: StaticString = #fileID, line: UInt = #line, _ handler: @escaping Handler
    ) -> LoopTimer {
        let deadline = LoopSelector.now + duration.nanoseconds
        let (key, wakes) = state.withLock { state in
            let key = state.timers.newKey(at: deadline)
            let sleeper = Sleeper.handler(handler, LoopPlace(file: file, line: line))
            return (key, state.addTimer(sleeper, key))
        }
        if wakes { selector.wake() }
        return LoopTimer(loop: self, key: key)
    }

    func cancel(_ key: LoopTimerKey) { _ = state.withLock { $0.timers.remove(key) } }

    // MARK: Stalls

    /// How many jobs took longer than `LoopStall.limit`, and the longest.
    package var stalls: (count: Int, longest: Duration) { state.withLock { $0.stalls } }

    /// Starts counting stalls, and calls an observer after each, on the loop's thread.
    package func onStall(_ observer: @escaping @Sendable (LoopStall) -> Void) {
        state.withLock { state in
            state.stalls = (0, .zero)
            state.stallObserver = observer
        }
    }

    private func note(_ stall: LoopStall) {
        state.withLock { state in
            state.stalls = (state.stalls.count + 1, max(state.stalls.longest, stall.duration))
            return state.stallObserver
        }?(stall)
    }

    // MARK: The thread

    /// How many rounds of tasks run before the kernel is polled again.
    private static let rounds = 8

    private func run(until end: Locked<Result<Void, any Error>?>?) {
        var events = LoopSelector.Events()
        var jobs: [Job] = []
        pthread_setspecific(Self.ownThread, Unmanaged.passUnretained(self).toOpaque())
        var armed = Int64.max
        var detector = LoopStallDetector()
        func ended(_ place: LoopPlace) { if let stall = detector.ended(place) { note(stall) } }
        while true {
            var round = 0
            while round < Self.rounds {
                state.withLock { swap(&$0.jobs, &jobs) }
                if jobs.isEmpty { break }
                for job in jobs { ended(perform(job)) }
                jobs.removeAll(keepingCapacity: true)
                round += 1
            }
            if let end, end.withLock({ $0 != nil }) { return }
            let (sleeps, deadline) = state.withLock { state in
                state.isAsleep = state.jobs.isEmpty
                return (state.isAsleep, state.timers.earliest)
            }
            if let deadline, deadline != armed { selector.arm(deadline) }
            armed = deadline ?? armed
            selector.wait(&events, sleeps: sleeps)
            detector.wokeUp()
            let due = state.withLock { state in
                state.isAsleep = false
                return deadline == nil ? [] : state.timers.takeDue(at: LoopSelector.now)
            }
            for sleeper in due {
                switch sleeper {
                case .task(let continuation):
                    continuation.resume()
                    ended(.sleep)
                case .handler(let handler, let place):
                    call(handler)
                    ended(place)
                }
            }
            for key in events.ready {
                switch key {
                case LoopSelector.wakeUpKey: break
                case LoopSelector.timerKey: armed = .max
                case let key:
                    guard let (handler, place) = state.withLock({ $0.descriptors[key] }) else { break }
                    call(handler)
                    ended(place)
                }
            }
        }
    }

    private func perform(_ job: Job) -> LoopPlace {
        switch job {
        case .task(let job): cplatform_run_job(unsafeBitCast(job, to: UnsafeMutableRawPointer.self))
        case .isolated(let job): job.runSynchronously(on: LoopActor.sharedUnownedExecutor)
        case .handler(let handler, let place):
            call(handler)
            return place
        }
        return .task
    }

    /// Calls what is isolated to the actor of this thread.
    ///
    /// The compiler cannot see that it is isolated. The standard library's `MainActor.assumeIsolated`
    /// does the same.
    private func call(_ handler: @escaping Handler) {
        unsafeBitCast(handler, to: (@Sendable () -> Void).self)()
    }
}

extension Bool {
    /// Returns the flag, and sets it to false.
    fileprivate mutating func take() -> Bool {
        defer { self = false }
        return self
    }
}

extension Duration {
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return max(0, min(seconds, 1 << 32)) * 1_000_000_000 + max(0, attoseconds / 1_000_000_000)
    }
}
