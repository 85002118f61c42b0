/// Does what one consumer's machine says, on the loop: each outcome is the machine's next event.
///
/// Everything that does not wait happens within the call that wakes it: from a look at the store to the bytes in a
/// plugin's pipe, and from a plugin's answer to the checkpoint.
@LoopActor final class ConsumerRunner {
    /// Who owns it.
    struct Owner: Sendable {
        /// It has everything. Whether something was brought, and when to look after its contexts again.
        let caughtUp: @LoopActor @Sendable (ConsumerRunner, Bool) -> Void
        /// It has ended, because it was told to or cannot go on.
        let ended: @LoopActor @Sendable (ConsumerRunner, (any Error)?) -> Void
    }

    private typealias Resumption = @LoopActor @Sendable (ConsumerRunner) -> Void

    private enum Phase {
        /// It has not been prepared yet.
        case begun
        case idle
        case working
        /// Somebody holds the passes.
        case held
        /// After a failure.
        case paused
        case ended
    }

    nonisolated let consumer: Consumer
    private let store: OpenStore
    private let hooks: HookRegistry
    private let control: StoreControl
    private let errands: Errands
    private let stop: StopSignal
    private let owner: Owner
    nonisolated let contexts: ContextKeeper

    private var machine: ConsumerMachine
    private var phase = Phase.begun
    /// Woken, or told to try at once, while it was at work.
    private var isWoken = false
    private var triesNow = false
    private var isTold = false
    /// A stop counts from its request on, before everybody is told.
    private var isEnding: Bool { isTold || stop.isRequested }
    private var isInStep = false
    private var startOfPass: Int64
    /// Errors one after the other that heal: a lock, a full disk.
    private var failures = 0
    /// What is done when a pause or a hold is over.
    private var resumption: Resumption = { $0.step() }
    private var hookSet = HookSet(observers: [], mergers: [], version: -1)
    private var pauseTimer: LoopTimer?
    private var contextsTimer: LoopTimer?
    private var conversation: (any HookConversation)?

    var cursor: Int64 { machine.cursor }

    /// - Throws: `HistoryError` with `.stateUnusable`.
    init(
        _ consumer: Consumer, at cursor: Int64, of store: OpenStore, hooks: HookRegistry, control: StoreControl,
        errands: Errands, stop: StopSignal, owner: Owner
    ) throws {
        self.consumer = consumer
        self.store = store
        self.hooks = hooks
        self.control = control
        self.errands = errands
        self.stop = stop
        self.owner = owner
        startOfPass = cursor
        contexts = ContextKeeper(
            consumer, storeID: store.storeID, reader: store.reader, state: store.state, reporter: store.reporter
        )
        machine = ConsumerMachine(
            consumer, storeID: store.storeID, cursor: cursor,
            batchEnd: try store.state.cursors.batchEnd(of: consumer.author),
            expiry: try store.state.cursors.expiry(of: consumer.author, store: store.storeID))
    }

    // MARK: Wake-ups

    /// There may be something new.
    func wakeUp() {
        switch phase {
        case .begun: prepare()
        case .idle: beginPass()
        case .working, .held, .paused: isWoken = true
        case .ended: break
        }
    }

    /// Nobody holds the passes any more.
    func released() { if case .held = phase { resumption(self) } }

    /// The pause after a failure is over.
    func tryNow() {
        if case .paused = phase { resume() } else { triesNow = true }
    }

    /// Comes to an end: nothing new is begun.
    func end() {
        isTold = true
        switch phase {
        case .begun, .idle, .held, .paused: ended()
        case .working, .ended: break
        }
    }

    /// Breaks off the call that is under way.
    func cancelCall() { conversation?.cancel() }

    private func ended(_ error: (any Error)? = nil) {
        if case .ended = phase { return }
        leaveStep()
        phase = .ended
        pauseTimer?.cancel()
        contextsTimer?.cancel()
        owner.ended(self, error)
    }

    // MARK: Passes

    /// Checks that the store is the one in which the consumer has its place, opens the contexts, and
    /// brings them up to the cursor.
    private func prepare() {
        if isEnding { return ended() }
        phase = .working
        let cursor = machine.cursor
        do {
            if try store.reader.isReplaced(
                store.state.cursors.checkpoint(of: consumer.author)?.fingerprint, at: cursor)
            {
                throw store.reader.ahead(cursor)
            }
        } catch {
            return fail(error) { $0.prepare() }
        }
        if consumer.contexts.isEmpty { return beginPass() }
        errand { [contexts] in
            try await onPool { try await contexts.tend(cursor: cursor) }
        } then: { runner, _ in
            runner.beginPass()
        } again: {
            $0.prepare()
        }
    }

    private func beginPass() {
        failures = 0
        isWoken = false
        startOfPass = machine.cursor
        if let place = store.state.cursors.resting.wake(consumer.author) {
            do { try perform(machine.goOn(from: place)) } catch { return fail(error) { $0.step() } }
        }
        step()
    }

    private func step() { enter(with: .proceed) }

    /// Begins a step, or goes on with one, once nobody holds.
    private func enter(with event: ConsumerMachine.Event) {
        if isEnding { return ended() }
        guard control.passes.tryEnter() else {
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

    private func leaveStep() {
        guard isInStep else { return }
        isInStep = false
        control.passes.leave()
    }

    /// It has everything.
    private func idle() {
        leaveStep()
        if isEnding { return ended() }
        phase = .idle
        failures = 0
        rest()
        owner.caughtUp(self, machine.cursor > startOfPass)
        watchContexts()
        if isWoken, case .idle = phase { beginPass() }
    }

    /// Who has neither contexts nor feeds, nor hooks for every entity, is not woken by every commit.
    private func rest() {
        guard consumer.contexts.isEmpty, consumer.feeds.isEmpty, hookSet.mergers.isEmpty else { return }
        let entities = hookSet.observers.compactMap(\.entity)
        guard entities.count == hookSet.observers.count else { return }
        store.state.cursors.resting.rest(
            consumer.author, at: machine.cursor, until: Set(entities), hooks: hookSet.version)
    }

    /// A context that failed is tried again also where nobody commits.
    private func watchContexts() {
        guard !consumer.contexts.isEmpty else { return }
        _ = errands.run({ [contexts] in await contexts.retryDelay }) { delay in
            guard let delay, !self.isEnding else { return }
            self.contextsTimer?.cancel()
            self.contextsTimer = self.store.loop.schedule(after: delay) { self.wakeUp() }
        }
    }

    // MARK: Events

    /// Takes an event, and those that follow from it at once.
    private func handle(_ event: ConsumerMachine.Event) {
        var event = event
        while true {
            let before = machine
            do {
                let output = machine.handle(event, surroundings)
                try perform(output.effects)
                guard let outcome = try act(on: output.next) else { return }
                event = outcome
            } catch {
                // What could not be done is done again, all of it.
                machine = before
                return fail(error) { [event] in $0.enter(with: event) }
            }
        }
    }

    private var surroundings: ConsumerMachine.Surroundings {
        ConsumerMachine.Surroundings(hooks: hookSet, now: store.state.clock.wall(), isEnding: isEnding)
    }

    private func perform(_ effects: [ConsumerMachine.Effect]) throws {
        let (state, author) = (store.state, consumer.author)
        for effect in effects {
            switch effect {
            case .saveBatchEnd(let position): try state.cursors.saveBatchEnd(position, of: author)
            case .save(let checkpoint):
                try state.cursors.save(checkpoint, of: author)
                wakeFeeds()
            case .saveLater(let checkpoint):
                state.cursors.saveLater(checkpoint, of: author)
                wakeFeeds()
            case .saveUnmerged(let ranges): try state.feeds.saveUnmerged(ranges, of: author)
            case .saveCaughtUpUntilNow: try state.cursors.saveCaughtUpUntilNow(author)
            case .keep(let letter): try state.deadLetters.keep(letter)
            case .removeExpiry: try state.cursors.removeExpiry(of: author)
            case .report(let event): store.reporter.report(event)
            }
        }
    }

    private func wakeFeeds() {
        if !consumer.feeds.isEmpty { control.seats.ring(consumer: consumer.author) }
    }

    // MARK: Actions

    /// - Returns: The outcome, where it is there at once; else it comes by itself, or the step is over.
    private func act(on next: ConsumerMachine.Next) throws -> ConsumerMachine.Event? {
        switch next {
        case .fetch(let number, let last):
            return .fetched(try store.fetcher.batch(after: number, through: last))
        case .findFingerprint(let position, let batch):
            return .found(fingerprint: try store.reader.fingerprint(at: position, in: batch))
        case .observe(let run): call(run.endpoint, run.loopEndpoint, .observe(run.calls))
        case .merge(let hook, let call): self.call(hook.endpoint, hook.loopEndpoint, .merge(call))
        case .tellOfExpiry(let hook, let call): self.call(hook.endpoint, hook.loopEndpoint, .expired(call))
        case .stage, .mergeIntoContexts, .settleContexts: useContexts(for: next)
        case .proceed:
            leaveStep()
            // Others have their turn between two batches.
            store.loop.soon { self.step() }
        case .retry(let delay): pause(for: delay) { $0.step() }
        case .idle: idle()
        }
        return nil
    }

    private func call(_ endpoint: any HookEndpoint, _ onLoop: (any LoopEndpoint)?, _ request: HookRequest) {
        if let onLoop {
            conversation = onLoop.begin(request) { answer in
                self.conversation = nil
                self.take(answer)
            }
        } else if !errands.call(endpoint, request, then: { self.take($0) }) {
            ended()
        }
    }

    private func take(_ answer: HookAnswer?) {
        switch answer {
        case .observed(let outcome): handle(.observed(outcome))
        case .merged(let result): handle(.merged(result))
        case .expired(let failure): handle(.toldOfExpiry(failure))
        case nil: ended()
        }
    }

    private func useContexts(for next: ConsumerMachine.Next) {
        let cursor = machine.cursor
        errand { [contexts] in
            try await onPool { try await contexts.act(on: next, cursor: cursor) }
        } then: { runner, event in
            runner.handle(event)
        } again: {
            $0.step()
        }
    }

    private func errand<T: Sendable>(
        _ body: @escaping @Sendable () async throws -> T,
        then: @escaping @LoopActor @Sendable (ConsumerRunner, T) -> Void, again: @escaping Resumption
    ) {
        let isBegun = errands.run { () -> Result<T, any Error> in
            do { return .success(try await body()) } catch { return .failure(error) }
        } then: { result in
            switch result {
            case .success(let value): then(self, value)
            case .failure(let error): self.fail(error, again)
            }
        }
        if !isBegun { ended() }
    }

    // MARK: Failures

    private func pause(for delay: Duration, _ resumption: @escaping Resumption) {
        leaveStep()
        if isEnding { return ended() }
        phase = .paused
        self.resumption = resumption
        // A wish to try at once that came during the attempt is meant for the next one.
        pauseTimer = store.loop.schedule(after: triesNow ? .zero : delay) { self.resume() }
    }

    private func resume() {
        pauseTimer?.cancel()
        resumption(self)
    }

    /// What heals is tried again; a place that no longer exists is given up; anything else ends the session.
    private func fail(_ error: any Error, _ again: @escaping Resumption) {
        leaveStep()
        if isEnding { return ended() }
        guard let error = error as? HistoryError else { return ended(error) }
        if error.code == .tokenExpired || error.code == .tokenAhead {
            beginAgain(after: error)
        } else if error.heals {
            failures += 1
            let delay = Backoff.delay(afterFailures: failures)
            // A lock is held now and then; it is worth a word when it lasts.
            if failures == 5 {
                store.reporter.report(
                    .consumerFailed(consumer: consumer.author, error, retryAfter: delay))
            }
            pause(for: delay, again)
        } else {
            ended(error)
        }
    }

    /// A consumer whose place no longer exists goes on where history is, has its contexts filled again, and its
    /// hooks told.
    private func beginAgain(after error: HistoryError) {
        phase = .working
        let (author, state) = (consumer.author, store.state)
        let expiry: Expiry
        do {
            expiry = try store.expiry(of: error, at: machine.cursor)
            let place = expiry.after.number
            try state.startOver(
                author, expiry, at: place, fingerprint: try store.reader.fingerprint(at: place, in: nil))
            store.reporter.report(.tokenExpired(consumer: author, error))
            machine = ConsumerMachine(
                consumer, storeID: store.storeID, cursor: place,
                expiry: try state.cursors.expiry(of: author, store: store.storeID))
        } catch {
            return fail(error) { $0.step() }
        }
        errand { [contexts] in
            await contexts.beginAnew()
        } then: { runner, _ in
            runner.wakeFeeds()
            runner.store.reporter.report(.consumerStands(consumer: author, at: expiry.after))
            runner.prepare()
        } again: {
            $0.prepare()
        }
    }
}

extension ContextKeeper {
    fileprivate func act(on next: ConsumerMachine.Next, cursor: Int64) throws -> ConsumerMachine.Event {
        switch next {
        case .stage(let batch): return .staged(try stage(batch, cursor: cursor))
        case .mergeIntoContexts(let pending, let waits):
            return .mergedIntoContexts(retryAfter: try merge(pending, cursor: cursor, waits: waits))
        default:
            try settle(cursor: cursor)
            return .contextsSettled
        }
    }
}
