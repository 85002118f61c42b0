internal import CPlatform
internal import Glibc

/// Watches a folder in which stores come and go.
///
/// Its own thread sleeps until the kernel reports an event (inotify(7)), or until the look at a written
/// file is due. Nothing is polled, and other folders do not wait for this one's disk.
package final class FolderWatcher: Sendable {
    /// Which files and folders count.
    package struct Rules: Sendable {
        package enum Fit: Sendable { case fits, other, unusable }

        /// Absolute; may lead through links, and need not exist.
        let folder: String
        let maximum: Int
        /// Nil if subfolders do not count.
        let enters: (@Sendable (_ path: String) -> Bool)?
        let fit: @Sendable (_ path: String) -> Fit
        let servedBefore: @Sendable () -> Set<String>

        /// - Parameters:
        ///   - enters: Whether a subfolder, by its relative path, counts too.
        ///   - fit: Whether a file, by its relative path, may be a store.
        ///   - servedBefore: The files, by relative path, that were served as stores by an earlier process. One of them
        ///     is a store whatever is in it: its service reports what is wrong. Called at most once, on the watcher's
        ///     thread.
        package init(
            folder: String, maximum: Int, enters: (@Sendable (_ path: String) -> Bool)? = nil,
            servedBefore: @escaping @Sendable () -> Set<String> = { [] },
            fit: @escaping @Sendable (_ path: String) -> Fit
        ) {
            (self.folder, self.maximum, self.enters, self.fit) = (folder, maximum, enters, fit)
            self.servedBefore = servedBefore
        }
    }

    private let rules: Rules
    private let report: @Sendable ([FolderEvent]) -> Void
    private let isStopped = Locked(false)
    private let stopEvent: Int32
    private let wakeUps = Locked(0)
    /// How long to wait after a failure, such as a limit that was reached.
    private static let retryTime: Int64 = 5_000_000_000

    /// - Parameter report: Called on the watcher's thread.
    package init(_ rules: Rules, report: @escaping @Sendable ([FolderEvent]) -> Void) {
        self.rules = rules
        self.report = report
        stopEvent = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    }

    deinit { if stopEvent >= 0 { close(stopEvent) } }

    /// Lists what is in a folder now.
    package static func list(_ rules: Rules) throws(ObserverError) -> [FolderEvent] {
        let scan = FolderScan(rules, try Inotify(), FolderContents(maximum: rules.maximum))
        try scan.followAll(at: LoopClock.monotonicNanoseconds, isSettled: true)
        try scan.lookAtDue(LoopClock.monotonicNanoseconds)
        return scan.takeEvents()
    }

    /// How often the thread woke.
    package var measures: Int { wakeUps.withLock(\.self) }

    /// Begins to watch.
    package func start() { BlockingThreads.shared.run { self.run() } }

    /// Stops without waiting: a disk may hang.
    package func stop() {
        isStopped.withLock { $0 = true }
        var one: UInt64 = 1
        _ = write(stopEvent, &one, 8)
    }

    private func run() {
        assertMayWait()
        var trouble: String?
        var contents = FolderContents(maximum: rules.maximum)
        while !isStopped.withLock(\.self) {
            do throws(ObserverError) {
                try follow(&contents, trouble)
            } catch {
                if trouble != error.description { send([.trouble(error.description)]) }
                trouble = error.description
                sleep(-1, until: LoopClock.monotonicNanoseconds + Self.retryTime)
            }
        }
    }

    private func follow(_ contents: inout FolderContents, _ trouble: String?) throws(ObserverError) {
        let mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
        defer { if mounts >= 0 { close(mounts) } }
        let scan = FolderScan(rules, try Inotify(), contents)
        defer {
            send(scan.takeEvents())
            contents = scan.contents
        }
        try scan.followAll(at: LoopClock.monotonicNanoseconds, isSettled: true)
        try scan.lookAtDue(LoopClock.monotonicNanoseconds)
        send((trouble == nil ? [] : [.trouble(nil)]) + scan.takeEvents() + [.listed])
        while !isStopped.withLock(\.self) {
            let isMounted = sleep(scan.inotify.number, mounts, until: scan.next)
            wakeUps.withLock { $0 += 1 }
            var isDrained = false
            while !isDrained, !isStopped.withLock(\.self) {
                let events: [InotifyEvent]
                (events, isDrained) = try scan.inotify.read()
                try scan.handle(events, at: LoopClock.monotonicNanoseconds)
            }
            if isMounted { try scan.followAll(at: LoopClock.monotonicNanoseconds) }
            try scan.lookAtDue(LoopClock.monotonicNanoseconds)
            send(scan.takeEvents())
        }
    }

    private func send(_ events: [FolderEvent]) {
        if !events.isEmpty, !isStopped.withLock(\.self) { report(events) }
    }

    /// - Returns: Whether something was mounted or unmounted.
    @discardableResult
    private func sleep(_ inotify: Int32, _ mounts: Int32 = -1, until end: Int64?) -> Bool {
        var files = [
            pollfd(fd: inotify, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stopEvent, events: Int16(POLLIN), revents: 0),
            pollfd(fd: mounts, events: Int16(POLLPRI), revents: 0),
        ]
        let timeout = end.map { Int32(clamping: max(0, $0 - LoopClock.monotonicNanoseconds) / 1_000_000 + 1) }
        return poll(&files, nfds_t(files.count), timeout ?? -1) > 0 && files[2].revents != 0
    }
}
