internal import CPlatform
internal import Glibc

/// Detects commits of other processes to stores, with inotify(7).
///
/// One observer, with one inotify descriptor and one thread, is enough for all stores of a process. It sleeps until the
/// kernel reports an event; writers are not affected. To follow a path may wait for a disk: each store's is followed on
/// a thread of its own.
///
/// A signal says that a commit may have happened. The last write of a commit happens before other processes can
/// see the commit, so `remoteChanges(of:after:)` looks until it is visible:
///
/// ```swift
/// async let running: Void = observer.run()
/// for try await token in try observer.remoteChanges(of: path) { print(token) }
/// ```
///
/// The consumer should keep its connection open: opening and closing a connection may create and remove files
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
    /// Wakes the thread for a stop.
    private let stopEvent: Int32
    /// Whether it heeds that something was mounted or unmounted.
    private let heedsMounts: Bool

    /// - Throws: `ObserverError` with `tooManyInstances`, `tooManyDescriptors` or `system`.
    public convenience init() throws(ObserverError) {
        try self.init(inotify: Inotify())
    }

    /// - Parameter heedsMounts: not in tests of what inotify tells, which a mount elsewhere would help.
    init(inotify: Inotify, heedsMounts: Bool = true) throws(ObserverError) {
        self.inotify = inotify
        stopEvent = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if stopEvent < 0 { throw .failed(to: "make an event descriptor", errno) }
        watches = StoreWatches(inotify: inotify)
        self.heedsMounts = heedsMounts
    }

    deinit {
        // If the observer was never run, nothing else ends them.
        for signals in watches.signals { signals.end() }
        close(stopEvent)
    }

    /// Begins to watch a store, which need not exist yet, nor its folder.
    ///
    /// May be called before `run()` and while it runs, and waits for the disk of the store's path. Paths that are not
    /// absolute count from the current folder.
    ///
    /// - Throws: `ObserverError` with `tooManyWatches`, `unreadable`, `ended` or `system`.
    package func watch(_ path: String) throws(ObserverError) -> StoreSignals {
        guard let absolute = StorePath.absolute(path) else {
            throw .failed(to: "find the current folder for '\(path)'", errno)
        }
        if phase.withLock({ $0 == .ended }) {
            throw ObserverError(.ended, "Cannot watch '\(path)': the observer has ended.")
        }
        // Where not everything is reported, the clock helps.
        let poll = FileSystemKind(of: absolute).map { _ in
            PollingObserver(of: absolute, every: FileSystemKind.interval)
        }
        let signals = StoreSignals(from: poll)
        do throws(ObserverError) {
            let key = try watches.add(absolute, signals)
            signals.onAbandoned { [weak watches] in watches?.remove(key) }
        } catch  where error.code == .unreadable {
            // What cannot be watched may be any folder on the way; the advice is about the store.
            throw ObserverError(
                error.code, error.message, hint: AccessAdvice(absolute)?.text() ?? error.hint,
                errno: error.errno)
        }
        // Meanwhile.
        if phase.withLock({ $0 == .ended }) { signals.end() }
        return signals
    }

    /// Delivers signals until the task is cancelled or `stop()` is called; then all signals end.
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
        // Can fail only if it has been written already.
        _ = write(stopEvent, &one, 8)
    }

    /// How often it woke, and how many watches there are.
    var measures: (wakeUps: Int, watches: Int) { (wakeUps.withLock(\.self), watches.watchCount) }
}

// MARK: - Delivering

extension StoreObserver {
    /// Follows events, on a thread of its own, until it is stopped.
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
        // It reports what happens after it was opened; check for what happened before.
        if mounts >= 0 { watches.followAll() }
        while !isStopped.withLock(\.self) {
            try receive()
            // A negative number is passed over.
            var files = [
                pollfd(fd: inotify.number, events: Int16(POLLIN), revents: 0),
                pollfd(fd: stopEvent, events: Int16(POLLIN), revents: 0),
                pollfd(fd: mounts, events: Int16(POLLPRI), revents: 0),
            ]
            // Less than nothing if a signal disturbed the wait.
            if poll(&files, nfds_t(files.count), -1) > 0, files[2].revents != 0 { watches.followAll() }
        }
    }

    /// Takes the events that are there, and hands over what they mean: the first link of the chain from a commit to
    /// a plugin's pipe.
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

/// The signals of one store, from `StoreObserver.watch` or a `PollingObserver`, which are united until they are taken.
///
/// For one consumer: two would share the signals between them. The first signal comes at once where the store is
/// there (what was written before the watch counts). There will be no more when the observer is stopped, and where the
/// store cannot be watched any longer; watch it again then, after a while. Letting go of them ends the watch.
package final class StoreSignals: Sendable {
    private struct State {
        var pending: StoreSignal = []
        var failure: ObserverError?
        var receiver: (@Sendable () -> Void)?
        /// The receiver was called, and has not begun yet.
        var isCalled = false
        var abandoned: (@Sendable () -> Void)?
    }

    private let state = Locked(State())
    /// There will be no more.
    let ended = OneShotEvent()
    private let poll: PollingObserver?

    package init(from poll: PollingObserver? = nil) { self.poll = poll }

    deinit { state.withLock { $0.abandoned }?() }

    /// Whether they come by the clock, perhaps beside others.
    var arePolled: Bool { poll != nil }

    /// Sets what is called when these signals are let go of.
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

    /// No more signals after the pending one.
    func end(_ failure: ObserverError? = nil) {
        state.withLock { $0.failure = $0.failure ?? failure }
        // Whoever sets a receiver after this finds the end.
        ended.signal()
        state.withLock { $0.receiver }?()
    }

    /// Polls, where that makes signals, until the task is cancelled.
    func run() async {
        guard let poll else { return }
        await onPool { await poll.run { self.post($0) } }
    }

    // MARK: Taking

    /// Why there will be no more signals, unless the observer was stopped.
    var failure: ObserverError? { state.withLock { $0.failure } }

    /// Sets what is called when there is a signal to take, or will be none any more, on the observer's thread, where it
    /// must not wait. For signals it is called again only after it has begun.
    func setReceiver(_ receiver: (@Sendable () -> Void)?) {
        let isPending = state.withLock { state in
            state.receiver = receiver
            state.isCalled = !state.pending.isEmpty
            return state.isCalled
        }
        if isPending || ended.isSignaled { receiver?() }
    }

    /// The receiver has begun.
    func receiverBegan() { state.withLock { $0.isCalled = false } }

    func take() -> StoreSignal {
        state.withLock { state in
            defer { state.pending = [] }
            return state.pending
        }
    }

    /// Waits until there is a signal, and takes it.
    ///
    /// - Returns: Nil if there will be none, or the task is cancelled.
    package func next(isolation actor: isolated (any Actor)? = #isolation) async throws(ObserverError)
        -> StoreSignal?
    {
        while true {
            // What was posted before the end is there now.
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

    /// Calls a body for each signal, on the observer's thread and as soon as the kernel reports it, until the task is
    /// cancelled or the observer is stopped. Instead of `next`.
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
