/// Serves one store: waits until it exists, detects its commits, and lets each consumer process what is
/// new. When the store is replaced or lost, everything is closed and started again.
package struct StoreRunner: Sendable {
    let store: ServedStore
    private let hooks: HookRegistry
    private let stateFolder: String
    private let reporter: any PipelineReporter
    private(set) var stop: OneShotEvent
    let control: StoreControl

    package init(
        _ store: ServedStore, hooks: HookRegistry, stateFolder: String, reporter: any PipelineReporter,
        stop: OneShotEvent, control: StoreControl = StoreControl()
    ) {
        self.store = store
        self.hooks = hooks
        self.stateFolder = stateFolder
        self.reporter = reporter
        self.stop = stop
        self.control = control
    }

    /// Serves the store until a stop is requested.
    ///
    /// - Parameter isUp: Called when the store is open and its consumers wait for commits, or when it is
    ///   certain that there is no store to open yet.
    /// - Throws: `ObserverError` if the store cannot be watched, `HistoryError`.
    package func run(watching signals: StoreSignals, isUp: @escaping @Sendable () -> Void = {}) async throws {
        // Signals and timers come from the loop, so this fails early if there is none.
        _ = try HistoryLoop.shared()
        // Without signals there is nothing to wait for. The owner may watch again.
        var runner = self
        runner.stop = signals.ended
        try await withThrowingTaskGroup(of: Void.self) { [runner] group in
            group.addTask {
                await stop.wait()
                signals.end()
            }
            group.addTask { await signals.run() }
            defer { group.cancelAll() }
            try await runner.serve(signals, isUp, on: control.thread)
        }
        if let failure = signals.failure { throw failure }
    }

    /// All of this is isolated to the store's thread by a parameter. A function that only inherits its
    /// caller's isolation would lose it in closures for the standard library, which have no isolation and
    /// would run on the loop.
    private func serve(
        _ signals: StoreSignals, _ isUp: @escaping @Sendable () -> Void, on thread: isolated StoreThread
    ) async throws {
        var trouble = StoreTrouble()
        while !stop.isSignaled, !Task.isCancelled {
            var wasOpen = false
            let files = RestingFiles(quiet: store.path)
            do {
                do {
                    let descriptors = try DescriptorBudget.shared.take(store.descriptors, for: store.path)
                    defer { withExtendedLifetime(descriptors) {} }
                    try await leased(on: thread) {
                        let opened = try await open(on: thread)
                        let openedAt = ContinuousClock.now
                        wasOpen = true
                        do {
                            try await session(opened, on: thread) {
                                try await $0.run(watching: signals, isUp: isUp)
                            }
                            trouble = StoreTrouble()
                        } catch {
                            if .now - openedAt > StoreTrouble.longestDelay { trouble = StoreTrouble() }
                            throw error
                        }
                    }
                }
                try await rest(signals, on: thread)
            } catch let error as HistoryError where error.isOfAnotherServer && store.isUsedInProcess {
                // A program that is started twice, or beside a daemon with another state, fails at once;
                // a daemon waits until the tracker has ended. The error is also reported, because the
                // program's task may ignore it.
                reporter.report(.storeLost(error))
                throw error
            } catch let error as HistoryError {
                control.openingFailed()
                if let error = movingAsideDamage(error), trouble.isNews(error, wasOpen: wasOpen) {
                    reporter.report(.storeLost(error))
                }
                isUp()
                let delay = trouble.delay(error, wasOpen: wasOpen)
                if error.isOfRights {
                    await stop.sleepUntilRightsChange(of: store.path, atMost: delay)
                } else {
                    await stop.sleep(for: delay)
                }
                if error.cause is SideFilesLost { await awaitMove(signals, on: thread) }
                // What failed while the store was open may be over, even damage. If a new connection
                // finds damage again, it is real. An older SQLite than the writer's does not find it.
                if trouble.isLastingDamage {
                    // Opening and closing a store also makes signals: a damaged store that opens would be
                    // opened and lost forever.
                    if let files { await wait(while: files.areUnchanged, signals, until: stop, on: thread) }
                } else if error.waitsForChange, !wasOpen || error.code == .storeTooNew {
                    // It throws only when it is asked to stop.
                    _ = try? await stop.cancelling { try await signals.next() }
                }
            }
        }
    }

    /// Moves a damaged state aside and creates it again, once it is unused.
    ///
    /// - Returns: The error that remains; nil if there is none.
    private func movingAsideDamage(_ error: HistoryError) -> HistoryError? {
        guard error.code == .stateDamaged, let damaged = error.cause as? DamagedFile else { return error }
        do throws(HistoryError) {
            let newPath = try DamagedFile.moveAside(damaged.path, at: store.clock.wall())
            reporter.report(.stateMovedAside(error, to: newPath))
            return nil
        } catch {
            return error
        }
    }

    private func open(on thread: isolated StoreThread) async throws -> OpenStore {
        try await OpeningTurns.shared.taking(on: thread) {
            try OpenStore(store, stateFolder: stateFolder, reporter: reporter)
        }
    }

    private func session(
        _ opened: OpenStore, on thread: isolated StoreThread, _ body: (StoreSession) async throws -> Void
    ) async throws {
        let session = StoreSession(opened, hooks: hooks, stop: stop, control: control, on: thread)
        do {
            try await body(session)
        } catch {
            try await session.close()
            throw error
        }
        try await session.close()
    }

    /// Runs a body while neither another state nor another path of this process serves the store.
    func leased(on thread: isolated StoreThread, _ body: () async throws -> Void) async throws {
        if store.isUsedInProcess { return try await probed(on: thread, body) }
        try await ServedFiles.shared.serving(store.path) { try await probed(on: thread, body) }
    }

    private func probed(on thread: isolated StoreThread, _ body: () async throws -> Void) async throws {
        try await WriterProbe.withLease(
            on: store.path, stateFolder: stateFolder, isUsedInProcess: store.isUsedInProcess, body)
    }

    /// Processes everything there is, once.
    ///
    /// - Throws: `HistoryError` if the store cannot be opened or read.
    package func runOnce() async throws {
        _ = try HistoryLoop.shared()
        try await runOnce(on: control.thread)
    }

    private func runOnce(on thread: isolated StoreThread) async throws {
        do {
            try await serveOnce(on: thread)
        } catch let error as HistoryError {
            if let error = movingAsideDamage(error) { throw error }
            try await serveOnce(on: thread)
        }
    }

    private func serveOnce(on thread: isolated StoreThread) async throws {
        try await leased(on: thread) {
            let opened = try await open(on: thread)
            try await session(opened, on: thread) { session in
                try await session.runOnce()
                try opened.state.cursors.flush()
                _ = try await onPool { try await opened.cleaning.cleanIfDue() }
            }
        }
    }
}

extension HistoryError {
    /// Whether another process, or another tracker of this one, serves the store.
    fileprivate var isOfAnotherServer: Bool { code == .consumerInUse || code == .storeServedElsewhere }

    /// Whether only a change of the store's files can fix it. Anything else, such as a lock or a
    /// permission, may pass without a sign.
    var waitsForChange: Bool {
        switch code {
        case .storeMissing, .storeCorrupt, .storeTooNew, .notTracked, .notAnEntity, .formatTooNew: true
        default: false
        }
    }

    /// Whether a consumer may retry on the same connections.
    var heals: Bool { !waitsForChange && code != .storeInterrupted && code != .stateDamaged }
}

/// Runs the work of one store in order, on a thread that may wait: no other store waits with it.
actor StoreThread {
    nonisolated let executor = SerialThreadExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
}

/// Limits how many stores are opened at the same time, because opening takes memory and processor time
/// and a daemon may have thousands.
///
/// An opening that takes long is waiting for something, and no longer counts.
final class OpeningTurns: Sendable {
    static let shared = OpeningTurns()

    /// How long an opening counts.
    private static let share: Duration = .milliseconds(200)

    private let turns = AsyncLock(free: 4)

    func taking<T>(on thread: isolated StoreThread, _ body: () throws -> T) async throws -> T {
        let loop = try HistoryLoop.shared()
        await turns.lock()
        let turn = Locked<AsyncLock?>(turns)
        let giveBack: @Sendable () -> Void = { turn.withLock { $0.take() }?.unlock() }
        let timer = loop.schedule(after: Self.share) { giveBack() }
        defer {
            timer.cancel()
            giveBack()
        }
        return try body()
    }
}
