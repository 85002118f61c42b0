internal import CPlatform
internal import Glibc

/// A store in which nothing happens need not be open: its connections are closed, and the watch alone stays.
extension StoreSession {
    /// A store that was opened and has nothing new rests after this time: of many that are opened at a start, few are
    /// open together.
    private static let grace: Duration = .seconds(2)

    /// Looks, after a time without a commit, whether the store may rest.
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
            // What prevents it now may last: it is not asked more often than once in that time.
            if .now - lastCommit >= rest { lastCommit = .now }
            return awaitRest()
        }
        control.beginRest(positions)
        end()
    }

    private var mayRest: Bool {
        guard case .settled = phase, !isMigrating, unprepared == 0, unfinished == 0, !isAtWork else {
            return false
        }
        return !control.passes.isHeld && control.isUnused
    }
}

/// What shows from outside that something was committed.
struct RestingFiles: Equatable {
    private let store: FileVersion
    /// Nil where it is empty, or is not there.
    private let log: FileVersion?

    /// Nil where there is no store, or what is written now might not show.
    init?(quiet path: String) {
        self.init(of: path)
        guard areQuiet else { return nil }
    }

    /// Nil where there is no store.
    init?(of path: String) {
        guard let store = FileVersion(of: path) else { return nil }
        self.store = store
        log = FileVersion(of: path + "-wal").flatMap { $0.size > 0 ? $0 : nil }
    }

    /// The clock of file times has ticks: two writes within one of them have one time.
    private static let tick = 0.05

    /// Whether whatever is written from now on has another time.
    private var areQuiet: Bool {
        let time = Double(HistoryTimestamp.now.milliseconds) / 1000
        let modifiedAt = max(store.modifiedAt, log?.modifiedAt ?? 0)
        // A clock that was set back is no reason to look for ever.
        return time - modifiedAt > Self.tick || time < modifiedAt - 1
    }
}

extension StoreRunner {
    /// How soon a store is looked at after it was closed, which changes its files as well.
    private static let pause: Duration = .milliseconds(150)

    /// Waits, with nothing open, until something may have been committed, or somebody asks for the store.
    ///
    /// Its files are noted before it is looked at for a last time: what was committed before is found by that look, and
    /// what is committed later changes what was noted.
    func rest(_ signals: StoreSignals, on thread: isolated StoreThread) async throws {
        guard let needed = control.needed, let positions = control.restingPositions else { return }
        defer {
            control.endRest()
            // The commit that is seen by its files may not be visible yet.
            signals.post(.changed)
        }
        await needed.sleep(for: Self.pause)
        guard !needed.isSignaled, !stop.isSignaled, !signals.ended.isSignaled,
            let files = RestingFiles(quiet: store.path)
        else { return }
        guard (try? await isLevel(with: positions.newest, on: thread)) ?? false else { return }
        FreedMemory.giveBack()
        while !needed.isSignaled, !stop.isSignaled, !signals.ended.isSignaled,
            RestingFiles(of: store.path) == files
        {
            // Thrown is that the store is needed, or cannot be watched any more.
            _ = try? await needed.cancelling { try await signals.next() }
        }
    }

    private func isLevel(with newest: HistoryToken, on thread: isolated StoreThread) async throws -> Bool {
        var isLevel = false
        try await leased(on: thread) {
            // As the session does: what only looks at a store keeps descriptors of it.
            let reader = try OpenStore.source(of: store)
            defer { try? reader.close() }  // Nothing was written.
            isLevel = try reader.newestToken() == newest
        }
        return isLevel
    }
}

/// Memory that closed connections have left: of 1,000 stores about 45 MiB.
private enum FreedMemory {
    /// How often it is given back to the system at most: that takes some milliseconds.
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
