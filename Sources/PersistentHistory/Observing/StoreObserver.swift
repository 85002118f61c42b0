internal import Glibc

/// Hears of other processes' commits to stores, by inotify(7).
///
/// One observer, with one inotify descriptor and one thread, is enough for all stores of a process. The thread
/// sleeps until the kernel has something to tell; writers are not disturbed.
///
/// A signal says that a commit may have happened. The last write of a commit comes before other processes can
/// see it, so a consumer looks by `WriterProbe.settle(look:)`:
///
/// ```swift
/// for try await signal in try observer.watch(path) {
///     try await probe.settle { try await fetchWhatIsNew() > 0 }
/// }
/// ```
///
/// It keeps its connection open: each opening and closing of one may make and remove files beside the store,
/// which is a signal again.
///
/// Watched are the store, its `-wal` and `-journal`, the store's own folder for their names, and the folders
/// and symbolic links on the way to it for being moved or removed. A folder on the way that this process may
/// pass but not read can not be watched: that it is moved goes unnoticed. Hard links are not looked for.
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
    private let stopLine: StopLine
    /// poll(2) on this tells that something was mounted or unmounted; -1 where there is no /proc.
    private let mountsDescriptor: Int32

    /// - Throws: `ObserverError` with `tooManyInstances`, `tooManyDescriptors` or `system`.
    public convenience init() throws(ObserverError) {
        try self.init(inotify: Inotify())
    }

    /// - Parameter heedsMounts: not in tests of what inotify tells, which a mount elsewhere would help.
    init(inotify: Inotify, heedsMounts: Bool = true) throws(ObserverError) {
        self.inotify = inotify
        state = Locked(State(watches: StoreWatches(inotify: inotify)))
        stopLine = try StopLine()
        mountsDescriptor = heedsMounts ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1
    }

    deinit {
        // Of an observer that was never run: nobody else would end them.
        for mailbox in state.withLock({ $0.watches.mailboxes }) { mailbox.finish() }
        if mountsDescriptor >= 0 { close(mountsDescriptor) }
    }

    /// Begins to watch a store, which need not exist yet, nor its folder.
    ///
    /// May be called before `run()` and while it runs. Paths that are not absolute count from the current folder.
    ///
    /// - Throws: `ObserverError` with `tooManyWatches`, `unreadable`, `ended` or `system`.
    public func watch(_ path: String) throws(ObserverError) -> StoreSignals {
        let absolute = try Self.absolute(path)
        let (mailbox, bell) = SignalMailbox.make()
        let signals = StoreSignals(mailbox: mailbox, bell: bell)
        let (key, signal) = try state.withLock { state throws(ObserverError) in
            guard state.phase != .ended else {
                throw ObserverError(.ended, "Cannot watch '\(path)': the observer has ended.")
            }
            return try state.watches.add(absolute, mailbox)
        }
        mailbox.onAbandoned { [weak self] in self?.state.withLock { $0.watches.remove(key) } }
        mailbox.post(signal)
        return signals
    }

    /// Delivers signals until the task is cancelled or `stop()` is called; then all sequences end.
    ///
    /// - Throws: `ObserverError` with `ended` where it has been run before, or `system` where the kernel
    ///   refuses; all sequences then throw the same.
    public func run() async throws(ObserverError) {
        try state.withLock { state throws(ObserverError) in
            guard state.phase == .ready else {
                throw ObserverError(.ended, "An observer can be run once.")
            }
            state.phase = .running
        }
        let failure = await withTaskCancellationHandler {
            await onThread { self.deliver() }
        } onCancel: {
            stop()
        }
        let mailboxes = state.withLock { state in
            state.phase = .ended
            return state.watches.mailboxes
        }
        for mailbox in mailboxes { mailbox.finish(throwing: failure) }
        if let failure { throw failure }
    }

    /// Ends `run()`, also one that has not begun yet.
    public func stop() {
        stopLine.hangUp()
    }

    /// How often the thread woke, and how many watches there are.
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

// MARK: - The thread

extension StoreObserver {
    /// Paths that could not be followed to the end are tried again after so many milliseconds.
    private static let retryInterval: Int32 = 10

    /// Waits for the kernel and posts signals, until it is told to stop.
    private func deliver() -> ObserverError? {
        // Room for some thousand events, so that the end of a burst is soon reached.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
        defer { buffer.deallocate() }
        var sources = [
            pollfd(fd: inotify.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stopLine.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: mountsDescriptor, events: Int16(POLLPRI), revents: 0),
        ]
        while true {
            let isSettled = state.withLock { $0.watches.unsettled.isEmpty }
            if poll(&sources, nfds_t(sources.count), isSettled ? -1 : Self.retryInterval) < 0, errno != EINTR {
                return .failed(to: "wait for inotify", errno)
            }
            if sources[1].revents != 0 { return nil }
            do throws(ObserverError) {
                let events = try inotify.read(into: buffer)
                let mountsChanged = sources[2].revents != 0
                let messages = state.withLock { state in
                    state.wakeUps += 1
                    var messages = state.watches.handle(events)
                    messages += mountsChanged ? state.watches.followAll() : state.watches.followUnsettled()
                    return messages
                }
                for message in messages { message.deliver() }
            } catch {
                return error
            }
        }
    }
}

extension StoreWatches.Message {
    fileprivate func deliver() {
        switch self {
        case .signal(let signal, let mailbox): mailbox.post(signal)
        case .failure(let error, let mailbox): mailbox.finish(throwing: error)
        }
    }
}
