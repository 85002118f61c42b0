internal import CPlatform
internal import Glibc

/// Detects commits of other processes to stores, with inotify(7).
///
/// One observer, with one inotify descriptor and one thread, serves all stores of a process. It sleeps
/// until the kernel reports an event and does not affect writers. Following a path may wait for a disk,
/// so each store's path is followed on its own thread.
///
/// A signal says that a commit may have happened. The last write of a commit happens before other processes can
/// see the commit, so `remoteChanges(of:after:)` looks until it is visible:
///
/// ```swift
/// async let running: Void = observer.run()
/// for try await token in try observer.remoteChanges(of: path) { print(token) }
/// ```
///
/// Keep the consumer's connection open: opening and closing a connection may create and remove files
/// beside the store, which causes another signal.
///
/// The observer watches the store, its `-wal` and `-journal`, the store's folder for these names, and the folders
/// and symbolic links on the path for being moved or removed. If this process has only search permission for a
/// folder on the path, that folder cannot be watched, and moving it is not noticed. Hard links are not followed.
public final class StoreObserver: Sendable {
    private enum Phase {
        case ready, running, ended
    }

    private let inotify: Inotify
    private let watches: StoreWatches
    private let phase = Locked(Phase.ready)
    private let wakeUps = Locked(0)
    private let isStopped = Locked(false)
    /// Wakes the thread when the observer stops.
    private let stopEvent: Int32
    /// Whether the observer reacts to mounts and unmounts.
    private let heedsMounts: Bool

    /// - Throws: `ObserverError` with `tooManyInstances`, `tooManyDescriptors` or `system`.
    public convenience init() throws(ObserverError) {
        try self.init(inotify: Inotify())
    }

    /// - Parameter heedsMounts: False in tests of inotify's reports, which an unrelated mount would
    ///   distort.
    init(inotify: Inotify, heedsMounts: Bool = true) throws(ObserverError) {
        self.inotify = inotify
        stopEvent = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if stopEvent < 0 { throw .failed(to: "make an event descriptor", errno) }
        watches = StoreWatches(inotify: inotify)
        self.heedsMounts = heedsMounts
    }

    deinit {
        // If the observer never ran, nothing else ends them.
        for signals in watches.signals { signals.end() }
        close(stopEvent)
    }

    /// Starts to watch a store. Neither the store nor its folder needs to exist.
    ///
    /// It may be called before `run()` and while it runs, and waits for the disk of the store's path.
    /// Relative paths count from the current folder.
    ///
    /// - Throws: `ObserverError` with `tooManyWatches`, `unreadable`, `ended` or `system`.
    package func watch(_ path: String) throws(ObserverError) -> StoreSignals {
        guard let absolute = StorePath.absolute(path) else {
            throw .failed(to: "find the current folder for '\(path)'", errno)
        }
        if phase.withLock({ $0 == .ended }) {
            throw ObserverError(.ended, "Cannot watch '\(path)': the observer has ended.")
        }
        // Where inotify does not report everything, the store is also polled.
        let poll = FileSystemKind(of: absolute).map { _ in
            PollingObserver(of: absolute, every: FileSystemKind.interval)
        }
        let signals = StoreSignals(from: poll)
        do throws(ObserverError) {
            let key = try watches.add(absolute, signals)
            signals.onAbandoned { [weak watches] in watches?.remove(key) }
        } catch  where error.code == .unreadable {
            // Any folder on the way may be unwatchable; the advice is about the store.
            throw ObserverError(
                error.code, error.message, hint: AccessAdvice(absolute)?.text() ?? error.hint,
                errno: error.errno)
        }
        // The observer may have ended meanwhile.
        if phase.withLock({ $0 == .ended }) { signals.end() }
        return signals
    }

    /// Delivers signals until the task is cancelled or `stop()` is called. Then all signals end.
    ///
    /// - Throws: `ObserverError` with `ended` if it has been run before, or with `system` if a system call fails;
    ///   all signals then end with the same error.
    public func run() async throws(ObserverError) {
        try phase.withLock { phase throws(ObserverError) in
            guard phase == .ready else {
                throw ObserverError(.ended, "An observer can be run once.")
            }
            phase = .running
        }
        let failure = await deliver()
        phase.withLock { $0 = .ended }
        for signals in watches.signals { signals.end(failure) }
        if let failure { throw failure }
    }

    /// Ends `run()`, even before it has started.
    public func stop() {
        isStopped.withLock { $0 = true }
        var one: UInt64 = 1
        // It fails only if the event has been written already.
        _ = write(stopEvent, &one, 8)
    }

    /// How often the thread woke, and how many watches exist.
    var measures: (wakeUps: Int, watches: Int) { (wakeUps.withLock(\.self), watches.watchCount) }
}

// MARK: - Delivering

extension StoreObserver {
    /// Handles events on its own thread until it is stopped.
    private func deliver() async -> ObserverError? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                BlockingThreads.shared.run {
                    do throws(ObserverError) {
                        try self.followEvents()
                        continuation.resume(returning: nil)
                    } catch {
                        continuation.resume(returning: error)
                    }
                }
            }
        } onCancel: {
            stop()
        }
    }

    private func followEvents() throws(ObserverError) {
        // The kernel reports mounts by this file (proc_pid_mountinfo(5)). Without /proc, mounts are not noticed.
        let mounts = heedsMounts ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1
        defer { if mounts >= 0 { close(mounts) } }
        // This file reports what happens after it was opened. Check for what happened before.
        if mounts >= 0 { watches.followAll() }
        while !isStopped.withLock(\.self) {
            try receive()
            // poll(2) ignores a negative number.
            var files = [
                pollfd(fd: inotify.number, events: Int16(POLLIN), revents: 0),
                pollfd(fd: stopEvent, events: Int16(POLLIN), revents: 0),
                pollfd(fd: mounts, events: Int16(POLLPRI), revents: 0),
            ]
            // Negative if a signal interrupted the wait.
            if poll(&files, nfds_t(files.count), -1) > 0, files[2].revents != 0 { watches.followAll() }
        }
    }

    /// Reads the pending events and hands over their meaning. This is the first step from a commit to a
    /// plugin's pipe.
    private func receive() throws(ObserverError) {
        var isDrained = false
        while !isDrained, !isStopped.withLock(\.self) {
            let events: [InotifyEvent]
            (events, isDrained) = try inotify.read()
            wakeUps.withLock { $0 += 1 }
            watches.handle(events)
        }
    }
}

// MARK: - Signals

/// The signals of one store, from `StoreObserver.watch` or a `PollingObserver`. Signals that were not
/// taken yet are united.
///
/// They are for one consumer: two would share the signals between them. If the store exists, the first
/// signal comes at once, because what was written before the watch counts. Signals end when the observer
/// stops or the store cannot be watched any longer; in the latter case, watch it again after a while.
/// Releasing them ends the watch.
package final class StoreSignals: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var failure: ObserverError?
        var receiver: (@Sendable () -> Void)?
        /// The receiver was called, and has not started yet.
        var isCalled = false
        var abandoned: (@Sendable () -> Void)?
    }

    private let state = Locked(State())
    /// Signaled when there will be no more signals.
    let ended = OneShotEvent()
    private let poll: PollingObserver?

    package init(from poll: PollingObserver? = nil) { self.poll = poll }

    deinit { state.withLock { $0.abandoned }?() }

    /// Whether polling makes them, perhaps beside inotify.
    var arePolled: Bool { poll != nil }

    /// Sets what to call when these signals are released.
    func onAbandoned(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.abandoned = action } }

    // MARK: Posting

    func post(_ signal: StoreSignal) {
        guard !signal.isEmpty else { return }
        let receiver = state.withLock { state in
            state.pending.formUnion(signal)
            defer { state.isCalled = true }
            return state.isCalled ? nil : state.receiver
        }
        receiver?()
    }

    /// Ends the signals after the pending one.
    func end(_ failure: ObserverError? = nil) {
        state.withLock { $0.failure = $0.failure ?? failure }
        // A receiver that is set after this finds the end.
        ended.signal()
        state.withLock { $0.receiver }?()
    }

    /// Polls, if this store is polled, until the task is cancelled.
    func run() async {
        guard let poll else { return }
        await onPool { await poll.run { self.post($0) } }
    }

    // MARK: Taking

    /// Why the signals ended; nil if the observer was stopped.
    var failure: ObserverError? { state.withLock { $0.failure } }

    /// Sets what to call when there is a signal to take, or when the signals have ended. It is called on
    /// the observer's thread, where it must not wait. For the next signal it is called only after it has
    /// started.
    func setReceiver(_ receiver: (@Sendable () -> Void)?) {
        let isPending = state.withLock { state in
            state.receiver = receiver
            state.isCalled = !state.pending.isEmpty
            return state.isCalled
        }
        if isPending || ended.isSignaled { receiver?() }
    }

    /// Notes that the receiver has started.
    func receiverBegan() { state.withLock { $0.isCalled = false } }

    func take() -> StoreSignal {
        state.withLock { state in
            defer { state.pending = [] }
            return state.pending
        }
    }

    /// Waits until there is a signal, and takes it.
    ///
    /// - Returns: Nil if the signals have ended, or the task is cancelled.
    package func next(isolation actor: isolated (any Actor)? = #isolation) async throws(ObserverError)
        -> StoreSignal?
    {
        while true {
            // A signal that was posted before the end is pending by now.
            let isOver = ended.isSignaled || Task.isCancelled
            let signal = take()
            if !signal.isEmpty { return signal }
            if isOver {
                if let failure { throw failure }
                return nil
            }
            let arrived = OneShotEvent()
            setReceiver { arrived.signal() }
            await arrived.wait()
            setReceiver(nil)
        }
    }

    /// Calls a body for each signal until the task is cancelled or the observer is stopped. The body runs
    /// on the observer's thread as soon as the kernel reports the event. Use it instead of `next`.
    package func forEach(_ body: @escaping @Sendable () -> Void) async throws(ObserverError) {
        setReceiver {
            self.receiverBegan()
            if !self.take().isEmpty { body() }
        }
        await ended.wait()
        setReceiver(nil)
        if let failure { throw failure }
    }
}
