/// Performs what one consumer's machine requests. Each outcome is the machine's next event.
///
/// It belongs to the store's session, on whose thread it looks, saves checkpoints, and waits for the
/// store's locks and disks. Results from elsewhere come back through `StoreSession.perform(for:)`.
final class ConsumerRunner {
    typealias Resumption = @Sendable (ConsumerRunner) -> Void

    enum Phase {
        /// It has not been prepared yet.
        case begun
        case idle
        /// Something new has come, and the consumer's batch window is not over.
        case gathering
        case working
        /// Passes are held, for example by a pause.
        case held
        /// After a failure.
        case paused
        case ended
    }

    let consumer: Consumer
    /// The owner.
    unowned let session: StoreSession
    let store: OpenStore
    let hooks: HookRegistry
    let control: StoreControl
    let stop: OneShotEvent
    let contexts: ContextKeeper

    var machine: ConsumerMachine
    /// The fingerprint of the position where it begins, or begins again.
    var fingerprint: String?
    var phase = Phase.begun
    /// Whether it was woken up, or asked to retry at once, while it was working.
    var isWoken = false
    /// The same, without a batch window.
    var isHurried = false
    /// The open batch window.
    var window: BatchWindow?
    /// Where the history ended when the pass began. With a batch window, later history is for the next
    /// pass.
    var endOfPass: Int64 = .max
    var triesNow = false
    var isStopping = false
    /// A stop counts as soon as it is requested, before all parts are notified.
    var isEnding: Bool { isStopping || stop.isSignaled }
    var isInStep = false
    var startOfPass: Int64
    /// Between attempts that fail for a temporary error, such as a lock or a full disk.
    var retryPause = GrowingPause()
    var isStateFailing = false
    var isPrepared = false
    /// Whether it was woken and has neither caught up nor failed since; for its owner.
    var isUnfinished = false
    /// What to do when a pause or a hold is over.
    var resumption: Resumption = { $0.step() }
    var hookSet = HookSet(observers: [], mergers: [], version: -1)
    var pauseTimer: StoreTimer?
    var contextsTimer: StoreTimer?
    var conversation: (any HookConversation)?
    /// Cancels a call in flight that is not on the loop.
    var callCancellation = OneShotEvent()
    /// An operator's request to move it.
    var moveRequest: MoveRequest?
    var moveTimer: StoreTimer?
    /// Whether its contexts have yet to catch up with it after a move.
    var isMovedForward = false
    /// When the call in flight was made.
    var callBegan = SuspendingClock.now
    var callTime: Duration = .zero

    var cursor: Int64 { machine.cursor }

    var isIdle: Bool { phase == .idle }
    /// Whether it waits for a timer.
    var isWaiting: Bool { phase == .paused || phase == .gathering }

    init(_ beginning: OpenStore.Beginning, of session: StoreSession) {
        consumer = beginning.consumer
        fingerprint = beginning.fingerprint
        self.session = session
        store = session.opened
        hooks = session.hooks
        control = session.control
        stop = session.stop
        startOfPass = beginning.cursor
        contexts = ContextKeeper(
            consumer, source: store.source, state: store.state, reporter: store.reporter,
            isRestored: beginning.expiry?.reason == .restored)
        machine = ConsumerMachine(
            consumer, storeID: store.storeID, cursor: beginning.cursor, fingerprint: fingerprint,
            batchEnd: beginning.batchEnd, expiry: beginning.expiry, givenUp: beginning.givenUp,
            replay: beginning.replay)
    }

    // MARK: Wake-ups

    /// There may be something new.
    ///
    /// - Parameter atOnce: Without waiting for a batch window.
    func wakeUp(atOnce: Bool = false) {
        switch phase {
        case .begun: prepare()
        case .idle: if atOnce { beginPass() } else { beginPassOrWindow() }
        case .gathering: if atOnce || isBatchFull { endWindow() }
        case .working, .held, .paused:
            isWoken = true
            if atOnce { isHurried = true }
        case .ended: break
        }
    }

    /// A process of a plugin runs.
    func pluginBegan(_ plugin: String, _ process: Int) {
        _ = session.work(
            { [contexts] in await contexts.processBegan(process, of: plugin) }, for: consumer.author
        ) {
            runner, isAnother in
            if isAnother { runner.wakeUp(atOnce: true) }
        }
    }

    /// The passes are no longer held.
    func released() { if phase == .held { resumption(self) } }

    /// The pause after a failure is over.
    func tryNow() {
        guard consumer.hasContexts else { return goOnNow() }
        // This applies to contexts as well.
        _ = session.work({ [contexts] in await contexts.tryNow() }, for: consumer.author) { runner, _ in
            runner.goOnNow()
        }
    }

    func goOnNow() {
        if phase == .paused { resume() } else { triesNow = true }
    }

    /// Ends: nothing new starts.
    func end() {
        isStopping = true
        switch phase {
        case .begun, .idle, .gathering, .held, .paused: ended()
        case .working, .ended: break
        }
    }

    /// Cancels the call in progress.
    func cancelCall() {
        conversation?.cancel()
        callCancellation.signal()
    }

    func ended(_ error: (any Error)? = nil) {
        if phase == .ended { return }
        leaveStep()
        phase = .ended
        pauseTimer?.cancel()
        contextsTimer?.cancel()
        moveTimer?.cancel()
        closeWindow()
        if let request = moveRequest.take(), request.begin() {
            request.end(.failure(HistoryError.storeNotOpen))
        }
        session.assumeIsolated { $0.consumerEnded(error) }
    }

    // MARK: Passes

    /// Checks that the store is the one that the consumer's checkpoint is for, opens the contexts, and
    /// brings them up to the cursor.
    func prepare() {
        if isEnding { return ended() }
        phase = .working
        let cursor = machine.cursor
        do {
            // In this order: the position may exist again by then in a restored store that grows, with
            // another fingerprint. The check is not left to a fetch, because a pass that is at the end of
            // the history fetches nothing.
            try store.source.bounds().check(after: cursor)
            if try store.source.isReplaced(fingerprint, at: cursor) { throw store.source.ahead(cursor) }
        } catch {
            return fail(error) { $0.prepare() }
        }
        if !consumer.hasContexts { return beginPass() }
        let takesOwn = !hooks.hooks(store: consumer.store, consumer: consumer.author).mergers.isEmpty
        work { [contexts] in
            try await contexts.tend(cursor: cursor, takesOwn: takesOwn)
        } then: { runner, _ in
            runner.beginPass()
        } again: {
            $0.prepare()
        }
    }

    func beginPass() {
        if !isPrepared {
            isPrepared = true
            session.assumeIsolated { $0.consumerPrepared() }
        }
        recovered()
        (isWoken, isHurried) = (false, false)
        startOfPass = machine.cursor
        if hasWindow { endOfPass = store.fetcher.end.number }
        if let checkpoint = store.state.cursors.idle.wake(consumer.author) {
            do { try perform(machine.goOn(from: checkpoint)) } catch { return fail(error) { $0.step() } }
        }
        step()
    }

    func step() { enter(with: .proceed) }

    /// Begins or continues a step, once the passes are not held.
    func enter(with event: ConsumerMachine.Event) {
        if isEnding { return ended() }
        if moveRequest != nil, move() {
            phase = .working
            return beginAfterMove()
        }
        guard control.passes.tryEnter(consumer.author) else {
            resumption = { $0.enter(with: event) }
            phase = .held
            return
        }
        isInStep = true
        phase = .working
        triesNow = false
        if hookSet.version != hooks.version {
            hookSet = hooks.hooks(store: consumer.store, consumer: consumer.author)
        }
        handle(event)
    }

    func leaveStep() {
        guard isInStep else { return }
        isInStep = false
        control.passes.leave(consumer.author)
    }

    /// It has caught up.
    func idle() {
        leaveStep()
        if isEnding { return ended() }
        phase = .idle
        recovered()
        if moveRequest != nil { return moveNow() }
        letCommitsPass()
        let (author, brought) = (consumer.author, machine.cursor > startOfPass)
        session.assumeIsolated { $0.caughtUp(author, brought) }
        watchContexts()
        if isWoken, phase == .idle { wakeUp(atOnce: isHurried) }
    }

    /// A consumer without contexts, feeds and hooks for every entity does not wake for every commit.
    func letCommitsPass() {
        guard !consumer.hasContexts, consumer.feeds.isEmpty, let interests = hookSet.interests,
            !control.passes.isHeld(by: .consumer(BinaryText(consumer.author)))
        else { return }
        store.state.cursors.idle.add(
            consumer.author, at: machine.cursor, until: interests, hooks: hookSet.version)
    }

    /// A context that failed is retried even without a new commit.
    func watchContexts() {
        guard consumer.hasContexts else { return }
        _ = session.work({ [contexts] in await contexts.retryDelay }, for: consumer.author) { runner, delay in
            guard let delay, !runner.isEnding else { return }
            runner.contextsTimer?.cancel()
            runner.contextsTimer = runner.session.schedule(after: delay, for: runner.consumer.author) {
                $0.wakeUp()
            }
        }
    }
}
