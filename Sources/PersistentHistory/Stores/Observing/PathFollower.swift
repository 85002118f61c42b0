internal import Glibc

/// Follows the path of one store, and keeps everything on the way watched.
///
/// Following a path may wait for a disk, so it runs on its own thread: neither other stores nor the
/// thread that reads the events wait for it. Events that come meanwhile are noted and handled next.
///
/// Watches are placed from the root down to the store's real file. Then the path is followed again. If it
/// leads the same way, every later change of it makes an event on one of these watches; otherwise they
/// are placed again. In the long run, events of unrelated files come only from the store's own folder
/// and, while there is no store, from the folders above it.
final class PathFollower: Sendable {
    /// What to do after a batch of events.
    struct Work: OptionSet, Sendable {
        let rawValue: UInt8
        /// The files were written, created or removed.
        static let signal = Work(rawValue: 1)
        /// The `-wal` or the `-journal` was created.
        static let placeSideFiles = Work(rawValue: 2)
        /// The path may lead elsewhere.
        static let follow = Work(rawValue: 4)
        static let overflowed = Work(rawValue: 8)
        /// The `-wal` or the `-shm` has lost its name.
        static let doubtSideFiles = Work(rawValue: 16)
    }

    /// The threads that follow paths; in tests, the calling thread.
    struct Threads: Sendable {
        var run: @Sendable (@escaping @Sendable () -> Void) -> Void = { BlockingThreads.shared.run($0) }
        /// Calls a closure on the loop after a pause.
        var later: @Sendable (@escaping @Sendable () -> Void) -> Void = { body in
            // Without a loop no store is served.
            _ = try? HistoryLoop.shared().schedule(after: .milliseconds(10)) { body() }
        }
    }

    private struct State: Sendable {
        var placement = Placement()
        var pending: Work = []
        /// A thread is at work on what is pending; at first, the one that calls `begin`.
        var isWorking = true
        var isFollowing = false
        /// The path changed faster than it could be followed.
        var isChanging = false
        var hasEnded = false
    }

    private let path: String
    private let key: StoreKey
    private let table: WatchTable
    private let threads: Threads
    /// Releasing these ends the watch.
    weak let signals: StoreSignals?
    /// Follows the paths of other stores again, whose events may have been lost.
    private let doubt: @Sendable (Set<StoreKey>) -> Void
    /// Reports that the store cannot be watched any longer.
    private let fail: @Sendable (ObserverError) -> Void
    private let state = Locked(State())

    /// - Parameter path: absolute.
    init(
        _ path: String, _ key: StoreKey, _ signals: StoreSignals, in table: WatchTable, threads: Threads,
        doubt: @escaping @Sendable (Set<StoreKey>) -> Void, fail: @escaping @Sendable (ObserverError) -> Void
    ) {
        (self.path, self.key, self.signals, self.table) = (path, key, signals, table)
        (self.threads, self.doubt, self.fail) = (threads, doubt, fail)
    }

    var isChanging: Bool { state.withLock { $0.isChanging } }

    // MARK: Events

    /// What an event on one of the store's watches means.
    func work(for event: InotifyEvent) -> Work {
        if event.has(IN_MODIFY) { return .signal }
        return state.withLock { state in
            let placement = state.placement
            if placement.isLossOfSideFile(event) { return [.signal, .doubtSideFiles] }
            // SQLite creates it when a store is opened, which changes nothing.
            if placement.isIndex(event) { return [] }
            if placement.isSideFile(event), !event.has(IN_ATTRIB) {
                // Matters most with a rollback journal, whose deletion ends each commit.
                return event.has(IN_DELETE) ? .signal : [.signal, .placeSideFiles]
            }
            // The folder reports the same under the file's name.
            if event.has(IN_IGNORED), placement.sideFiles.contains(event.watch) { return [] }
            guard !state.isFollowing, let store = placement.store, !event.name.isEmpty else { return .follow }
            // Requested of the folder for another store that is missing. `InotifyMask.file` says why not
            // for this one.
            if event.has(IN_ATTRIB) { return [] }
            return event.watch == store.folder ? [.signal, .follow] : .follow
        }
    }

    /// Does what events require. It signals a commit at once, and does the rest on a thread that may
    /// wait.
    func handle(_ work: Work) {
        if work.subtracting(.doubtSideFiles) == .signal {
            if state.withLock({ $0.placement.store != nil }) { signals?.post(work.atOnce) }
            return
        }
        let starts = state.withLock { state in
            state.pending.formUnion(work)
            if state.pending.isEmpty || state.isWorking || state.hasEnded { return false }
            state.isWorking = true
            return true
        }
        if starts { threads.run { self.workOff() } }
    }

    // MARK: Working

    /// Follows the path for the first time.
    ///
    /// - Throws: `ObserverError` with `tooManyWatches`, `unreadable` or `system`.
    func begin() throws(ObserverError) {
        let signal: StoreSignal
        do throws(ObserverError) {
            signal = try perform(.follow)
        } catch {
            end()
            workOff()
            throw error
        }
        signals?.post(signal)
        workOff(on: threads)
    }

    /// Releases all watches, without waiting for a disk.
    func end() {
        state.withLock { $0.hasEnded = true }
        let shared = table.release(of: key)
        if !shared.isEmpty { threads.run { self.doubt(self.table.narrow(shared)) } }
    }

    private func workOff(on threads: Threads) {
        let isPending = state.withLock { state in
            state.isWorking = !state.pending.isEmpty || state.hasEnded
            return state.isWorking
        }
        if isPending { threads.run { self.workOff() } }
    }

    private func workOff() {
        while let work = next() {
            do throws(ObserverError) {
                let signal = try perform(work)
                signals?.post(signal)
            } catch {
                fail(error)
            }
        }
    }

    /// - Returns: Nil if there is nothing left to do.
    private func next() -> Work? {
        let (work, hasEnded) = state.withLock { state -> (Work?, Bool) in
            defer { state.pending = [] }
            if !state.hasEnded, !state.pending.isEmpty { return (state.pending, false) }
            state.isWorking = false
            return (nil, state.hasEnded)
        }
        // Releases watches that were placed after the end.
        if hasEnded { doubt(table.narrow(table.release(of: key))) }
        return work
    }

    private func perform(_ work: Work) throws(ObserverError) -> StoreSignal {
        assertMayWait()
        let before = state.withLock { state in
            state.isFollowing = work.contains(.follow)
            return state.placement
        }
        defer { state.withLock { $0.isFollowing = false } }
        let after =
            if work.contains(.follow) {
                try follow()
            } else {
                try before.withSideFiles { path throws(ObserverError) in
                    try table.place(path, for: key, .init(kind: .file))
                }
            }
        // The old watches are kept until here, so that no event is missed in between.
        state.withLock { $0.placement = after }
        doubt(table.narrow(table.release(allBut: after.all, of: key)))

        var signal = StoreSignal.difference(from: before.file, to: after.file)
        if work.contains(.overflowed) { signal.insert(.overflowed) }
        if work.contains(.doubtSideFiles) { signal.insert(.sideFilesInDoubt) }
        if after.file != nil, work.contains(.signal) || !after.files.isSubset(of: before.files) {
            signal.insert(.changed)
        }
        return signal
    }

    // MARK: Following

    /// How often a path that keeps changing is followed before a pause.
    private static let mostAttempts = 8

    /// Follows the path and watches everything on the way.
    private func follow() throws(ObserverError) -> Placement {
        var trail = PathTrail(following: path)
        var placement = Placement()
        var isStable = false
        for _ in 0..<Self.mostAttempts where !isStable {
            let wishes: [Int32: WatchTable.Use]
            (placement, wishes) = try place(trail)
            let again = PathTrail(following: path)
            isStable = again == trail
            trail = again
            if isStable { for (watch, use) in wishes { table.want(use, of: watch, for: key) } }
        }
        state.withLock { $0.isChanging = !isStable }
        if !isStable { threads.later { [weak self] in self?.handle(.follow) } }
        return placement
    }

    /// Watches everything on the way, and more than will be needed: each folder also for the name looked
    /// up in it.
    ///
    /// A name may lead elsewhere just while a watch is placed below it, and back again before the path is
    /// followed for the second time. With these watches that makes an event.
    ///
    /// - Returns: Also what to watch for in the folders and links once they are known to be the right
    ///   ones.
    private func place(
        _ trail: PathTrail
    ) throws(ObserverError) -> (Placement, wishes: [Int32: WatchTable.Use]) {
        var placement = Placement()
        var wishes: [Int32: WatchTable.Use] = [:]
        var home: Int32?
        for (path, wish) in trail.wishes {
            var use = wish
            if wish.kind == .folder { use.kind = .names }
            do throws(ObserverError) {
                guard let watch = try table.place(path, for: key, use) else { continue }
                wishes[watch] = wishes[watch]?.union(wish) ?? wish
                if path == trail.store?.folder { home = watch }
            } catch  where error.code == .unreadable && path != trail.lookups.last?.folder {
                // A folder with search permission only: moving it is not noticed.
            }
        }
        placement.folders = Set(wishes.keys)
        guard let found = trail.store, let home,
            let file = try table.place(found.path, for: key, .init(kind: .file))
        else { return (placement, wishes) }
        placement.store = .init(path: found.path, name: found.name, folder: home, file: file)
        placement = try placement.withSideFiles { path throws(ObserverError) in
            try table.place(path, for: key, .init(kind: .file))
        }
        return (placement, wishes)
    }
}

extension PathFollower.Work {
    /// The signal that needs no path to be followed.
    fileprivate var atOnce: StoreSignal {
        contains(.doubtSideFiles) ? [.changed, .sideFilesInDoubt] : .changed
    }
}
