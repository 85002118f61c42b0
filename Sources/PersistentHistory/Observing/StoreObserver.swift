internal import CLinux
internal import Glibc

/// Detects commits of other processes to stores, with inotify(7).
///
/// One observer, with one inotify descriptor and one thread, is enough for all stores of a process. It sleeps until the
/// kernel reports an event; writers are not affected. To follow a path may wait for a disk: that is not for the loop.
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

    private struct State: Sendable {
        var phase = Phase.ready
        var watches: StoreWatches
        var wakeUps = 0
    }

    private let inotify: Inotify
    private let state: Locked<State>
    private let isStopped = Locked(false)
    /// Wakes the thread for a stop.
    private let bell: Int32
    /// Whether it heeds that something was mounted or unmounted.
    private let heedsMounts: Bool

    /// - Throws: `ObserverError` with `tooManyInstances`, `tooManyDescriptors` or `system`.
    public convenience init() throws(ObserverError) {
        try self.init(inotify: Inotify())
    }

    /// - Parameter heedsMounts: not in tests of what inotify tells, which a mount elsewhere would help.
    init(inotify: Inotify, heedsMounts: Bool = true) throws(ObserverError) {
        self.inotify = inotify
        bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if bell < 0 { throw .failed(to: "make an event descriptor", errno) }
        state = Locked(State(watches: StoreWatches(inotify: inotify)))
        self.heedsMounts = heedsMounts
    }

    deinit {
        // If the observer was never run, nothing else ends them.
        for signals in state.withLock({ $0.watches.signals }) { signals.end() }
        close(bell)
    }

    /// Begins to watch a store, which need not exist yet, nor its folder.
    ///
    /// May be called before `run()` and while it runs. Paths that are not absolute count from the current folder.
    ///
    /// - Throws: `ObserverError` with `tooManyWatches`, `unreadable`, `ended` or `system`.
    package func watch(_ path: String) throws(ObserverError) -> StoreSignals {
        let absolute = try Self.absolute(path)
        let signals = StoreSignals()
        let (key, signal) = try state.withLock { state throws(ObserverError) in
            guard state.phase != .ended else {
                throw ObserverError(.ended, "Cannot watch '\(path)': the observer has ended.")
            }
            do throws(ObserverError) {
                return try state.watches.add(absolute, signals)
            } catch  where error.code == .unreadable {
                // What cannot be watched may be any folder on the way; the advice is about the store.
                throw ObserverError(
                    error.code, error.message, hint: AccessAdvice(absolute)?.text() ?? error.hint,
                    errno: error.errno)
            }
        }
        signals.onAbandoned { [weak self] in self?.state.withLock { $0.watches.remove(key) } }
        signals.post(signal)
        return signals
    }

    /// Delivers signals until the task is cancelled or `stop()` is called; then all signals end.
    ///
    /// - Throws: `ObserverError` with `ended` if it has been run before, or with `system` if a system call fails;
    ///   all signals then end with the same error.
    public func run() async throws(ObserverError) {
        try state.withLock { state throws(ObserverError) in
            guard state.phase == .ready else {
                throw ObserverError(.ended, "An observer can be run once.")
            }
            state.phase = .running
        }
        let failure = await deliver()
        let watched = state.withLock { state in
            state.phase = .ended
            return state.watches.signals
        }
        for signals in watched { signals.end(failure) }
        if let failure { throw failure }
    }

    /// Ends `run()`, even before it has started.
    public func stop() {
        isStopped.withLock { $0 = true }
        var one: UInt64 = 1
        // Can fail only if it has been rung already.
        _ = write(bell, &one, 8)
    }

    /// How often it woke, and how many watches there are.
    var measures: (wakeUps: Int, watches: Int) {
        state.withLock { ($0.wakeUps, $0.watches.watchCount) }
    }

    private static func absolute(_ path: String) throws(ObserverError) -> String {
        if path.first == "/" { return path }
        guard let buffer = getcwd(nil, 0) else {
            throw .failed(to: "find the current folder for '\(path)'", errno)
        }
        defer { free(buffer) }
        return PathTrail.join(String(cString: buffer), path)
    }
}

// MARK: - Delivering

extension StoreObserver {
    /// Paths that could not be followed to the end are tried again after so many milliseconds.
    private static let retryInterval: Int32 = 10

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
        if mounts >= 0 { followMounts() }
        while !isStopped.withLock(\.self) {
            try receive()
            let isUnsettled = state.withLock { !$0.watches.unsettled.isEmpty }
            // A negative number is passed over.
            var files = [
                pollfd(fd: inotify.number, events: Int16(POLLIN), revents: 0),
                pollfd(fd: bell, events: Int16(POLLIN), revents: 0),
                pollfd(fd: mounts, events: Int16(POLLPRI), revents: 0),
            ]
            // Less than nothing if a signal disturbed the wait.
            if poll(&files, nfds_t(files.count), isUnsettled ? Self.retryInterval : -1) > 0,
                files[2].revents != 0
            {
                followMounts()
            }
        }
    }

    /// Takes the events that are there, and delivers what they mean: the first link of the chain from a commit to
    /// a plugin's pipe.
    private func receive() throws(ObserverError) {
        var isDrained = false
        while !isDrained, !isStopped.withLock(\.self) {
            let events: [InotifyEvent]
            (events, isDrained) = try inotify.read()
            let messages = state.withLock { state in
                state.wakeUps += 1
                var messages = state.watches.handle(events)
                if !state.watches.unsettled.isEmpty { messages += state.watches.followUnsettled() }
                return messages
            }
            deliver(messages)
        }
    }

    private func followMounts() { deliver(state.withLock { $0.watches.followAll() }) }

    private func deliver(_ messages: [StoreWatches.Message]) {
        for message in messages {
            switch message {
            case .signal(let signal, let signals): signals.post(signal)
            case .failure(let error, let signals): signals.end(error)
            }
        }
    }
}
