internal import CPlatform
internal import Glibc

/// A store in which nothing happens need not be open. Its connections are closed, and only the watch
/// stays.
extension StoreSession {
    /// A store with nothing new rests after this time, so that of many stores that are opened at a start,
    /// few are open together.
    private static let grace: Duration = .seconds(2)

    /// Checks, after a time without a commit, whether the store may rest.
    func beginAwaitingRest() {
        guard let rest = store.rest else { return }
        lastCommit = .now - max(.zero, rest - Self.grace)
        awaitRest()
    }

    private func awaitRest() {
        guard let rest = store.rest, restTimer == nil, !isEnding, !isSingleRun else { return }
        restTimer = schedule(after: max(.zero, rest - (.now - lastCommit))) { session in
            session.restTimer = nil
            session.restIfIdle(after: rest)
        }
    }

    private func restIfIdle(after rest: Duration) {
        guard !isEnding else { return }
        guard .now - lastCommit >= rest, mayRest, let positions = try? positions([:]) else {
            // What prevents the rest now may last, so it is checked at most once in that time.
            if .now - lastCommit >= rest { lastCommit = .now }
            return awaitRest()
        }
        control.beginRest(positions, schemaVersion: schemaVersion)
        end()
    }

    private var mayRest: Bool {
        guard case .idle = phase, !isMigrating, unprepared == 0, unfinished == 0, !isAtWork else {
            return false
        }
        // A cleanup that failed is tried again only while the store is open.
        return !control.passes.isHeld && control.isUnused && !opened.cleaning.isFailing
    }
}

/// Shows from outside whether something was committed.
struct RestingFiles: Equatable {
    private let path: String
    private let store: FileVersion
    /// Nil if the log is empty or missing.
    private let log: FileVersion?

    /// Nil if there is no store, or if a write at this moment might not show.
    init?(quiet path: String) {
        self.init(of: path)
        guard areQuiet else { return nil }
    }

    /// Nil if there is no store.
    init?(of path: String) {
        guard let store = FileVersion(of: path) else { return nil }
        (self.path, self.store) = (path, store)
        log = FileVersion(of: path + "-wal").flatMap { $0.size > 0 ? $0 : nil }
    }

    var haveLog: Bool { log != nil }

    /// Whether the files still look like this.
    var areUnchanged: Bool { RestingFiles(of: path) == self }

    /// Whether nothing was committed. A log that is gone is no commit: the program that closes the store last removes
    /// it, and whoever moves the store moves it first. Opened in between, the store lacks its last commits.
    var showNoCommit: Bool {
        guard let now = RestingFiles(of: path) else { return false }
        return now.store == store && (now.log == nil || now.log == log)
    }

    /// The clock of file times has ticks: two writes within one of them have the same time.
    private static let tick = 0.05

    /// Whether any later write has another time.
    private var areQuiet: Bool {
        let time = Double(HistoryTimestamp.now.milliseconds) / 1000
        let modifiedAt = max(store.modifiedAt, log?.modifiedAt ?? 0)
        // A clock that was set back must not keep the store open forever.
        return time - modifiedAt > Self.tick || time < modifiedAt - 1
    }
}

extension StoreRunner {
    /// How long after closing a store it is looked at, because closing changes its files as well.
    private static let pause: Duration = .milliseconds(150)

    /// Waits, with nothing open, until something may have been committed, or the store is needed.
    ///
    /// Its files are noted before the last look. That look finds earlier commits, and later ones change
    /// what was noted.
    func rest(_ signals: StoreSignals, on thread: isolated StoreThread) async throws {
        guard let rest = control.rest else { return }
        defer {
            control.endRest()
            // A commit that the files show may not be visible yet.
            signals.post(.changed)
        }
        await rest.needed.sleep(for: Self.pause)
        guard !rest.needed.isSignaled, !stop.isSignaled, !signals.ended.isSignaled,
            let files = RestingFiles(quiet: store.path)
        else { return }
        guard (try? await isLevel(with: rest, on: thread)) ?? false else { return }
        control.rests(files)
        FreedMemory.giveBack()
        await wait(while: files.showNoCommit, signals, until: rest.needed, on: thread)
    }

    /// How long a store without its log is given to be moved as well.
    private static let move: Duration = .seconds(2)

    /// Where the log of an open store is gone, waits until a commit makes another one, or the file is gone too: it is
    /// being moved. Opened in between, the store lacks its last commits, and its consumers would start over.
    func awaitMove(_ signals: StoreSignals, on thread: isolated StoreThread) async {
        guard let files = RestingFiles(of: store.path), !files.haveLog, let loop = try? HistoryLoop.shared()
        else {
            return
        }
        let over = OneShotEvent()
        let timer = loop.schedule(after: Self.move) { over.signal() }
        defer { timer.cancel() }
        await wait(while: files.areUnchanged, signals, until: over, on: thread)
    }

    /// Waits until something no longer holds for the store's files, an event comes, or the store cannot be watched any
    /// more.
    func wait(
        while holds: @autoclosure () -> Bool, _ signals: StoreSignals, until event: OneShotEvent,
        on thread: isolated StoreThread
    ) async {
        while !event.isSignaled, !stop.isSignaled, !signals.ended.isSignaled, holds() {
            // It throws only if the event comes, or the store cannot be watched any more.
            _ = try? await event.cancelling { try await signals.next() }
        }
    }

    /// Whether there is neither a transaction nor a change of the schema that its session has not seen.
    private func isLevel(with rest: StoreControl.Rest, on thread: isolated StoreThread) async throws -> Bool {
        var isLevel = false
        try await leased(on: thread) {
            // As in the session, a connection that only looks at a store keeps descriptors of it.
            let reader = try OpenStore.source(of: store)
            defer { try? reader.close() }  // Nothing was written.
            isLevel =
                try reader.newestToken() == rest.positions.newest
                && reader.schemaVersion() == rest.schemaVersion
        }
        return isLevel
    }
}

/// Memory that closed connections have left: about 45 MiB for 1,000 stores.
private enum FreedMemory {
    /// The shortest interval between two returns to the system, which take some milliseconds each.
    private static let interval: Duration = .seconds(1)
    private static let last = Locked<ContinuousClock.Instant?>(nil)

    static func giveBack() {
        assertMayWait()
        let isDue = last.withLock { last in
            if let last, .now - last < interval { return false }
            last = .now
            return true
        }
        if isDue { malloc_trim(0) }
    }
}
