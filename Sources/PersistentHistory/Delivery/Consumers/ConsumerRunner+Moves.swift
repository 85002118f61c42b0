/// Moves a consumer to another position: between two steps, so that nothing is in progress.
extension ConsumerRunner {
    /// Moves the consumer as soon as nothing is in progress. A call in flight may finish within the same
    /// time as at a stop. Then it is cancelled, and repeated if the consumer gets to it again.
    func request(_ request: MoveRequest) {
        if phase == .ended || isEnding { return request.end(.failure(HistoryError.storeNotOpen)) }
        if let other = moveRequest, !other.withdraw() { return request.end(.failure(MoveRefused.another)) }
        moveRequest?.end(.failure(MoveRefused.another))
        moveRequest = request
        guard phase == .working else { return moveNow() }
        moveTimer = session.schedule(after: session.moveGrace, for: consumer.author) { runner in
            if runner.moveRequest != nil { runner.cancelCall() }
        }
    }

    /// Nothing is in progress.
    func moveNow() {
        guard move() else {
            // An idle consumer may have been removed from the idle consumers.
            if phase == .idle { beginPass() }
            return
        }
        phase = .working
        pauseTimer?.cancel()
        closeWindow()
        retryPause.reset()
        beginAfterMove()
    }

    /// Performs the requested move.
    ///
    /// - Returns: Whether the consumer is at another position now.
    func move() -> Bool {
        guard let request = moveRequest.take() else { return false }
        moveTimer?.cancel()
        guard request.begin() else { return false }
        do {
            if let checkpoint = store.state.cursors.idle.wake(consumer.author) {
                try perform(machine.goOn(from: checkpoint))
            }
            let plan = MovePlan(
                from: machine.cursor, to: request.to, last: try store.state.replays.last(of: consumer.author),
                batchEnd: machine.batchEnd)
            try plan.check(skips: request.skips, of: consumer.author, in: store.storeID)
            if !plan.isNothing { try move(plan, by: request.peer) }
            request.end(.success(ConsumerMove(from: token(plan.from), to: token(plan.to))))
            return !plan.isNothing
        } catch {
            request.end(.failure(error))
            return false
        }
    }

    private func token(_ number: Int64) -> HistoryToken { HistoryToken(store: store.storeID, number: number) }

    private func move(_ plan: MovePlan, by peer: String) throws {
        let (state, author) = (store.state, consumer.author)
        let fingerprint = try store.source.fingerprint(at: plan.to, in: nil)
        let checkpoint = Checkpoint(
            position: plan.to, fingerprint: fingerprint, movedAt: state.clock.wall(),
            movedAtServed: state.served)
        try state.cleaningGate.move {
            // The position may have been deleted since it was searched.
            try store.source.bounds().check(after: plan.to)
            try state.move(author, to: checkpoint, plan.replay)
        }
        // From here on the move is made, whatever fails.
        self.fingerprint = fingerprint
        machine = machine.moved(
            to: plan, expiry: (try? state.cursors.expiry(of: author, store: store.storeID)) ?? machine.expiry,
            givenUp: (try? state.deadLetters.calls(of: author, after: plan.to)) ?? machine.givenUp,
            fingerprint: fingerprint)
        store.reporter.report(
            .consumerMoved(consumer: author, from: token(plan.from), to: token(plan.to), by: peer))
        wakeFeeds()
        isMovedForward = plan.to > plan.from
    }

    /// Continues at the consumer's new position. Contexts that are behind catch up from the history.
    func beginAfterMove() {
        guard isMovedForward, consumer.hasContexts else { return prepare() }
        isMovedForward = false
        work { [contexts] in
            await contexts.startOver(isRestored: false)
        } then: { runner, _ in
            runner.prepare()
        } again: {
            $0.prepare()
        }
    }
}

extension ConsumerMachine {
    /// The machine of the same consumer at another position.
    ///
    /// - Parameter fingerprint: The fingerprint of that position.
    func moved(
        to plan: MovePlan, expiry: Expiry?, givenUp: GivenUpCalls, fingerprint: String? = nil
    ) -> ConsumerMachine {
        var next = ConsumerMachine(
            consumer, storeID: storeID, cursor: plan.to, fingerprint: fingerprint,
            batchEnd: plan.replay?.batchEnd(at: plan.to, saved: 0) ?? 0, expiry: expiry, givenUp: givenUp,
            replay: plan.replay)
        // A notice of lost history continues where it was.
        (next.notifiedOfExpiry, next.isLossReported) = (notifiedOfExpiry, isLossReported)
        next.madeAhead = replay == nil ? (observed, done, pending ?? leftMerge) : madeAhead
        if next.replay == nil {
            next.resumeAhead()
        } else if plan.to > plan.from {
            next.observed = max(next.observed, observed)
            (next.done, next.leftMerge) = (done, pending ?? leftMerge)
        }
        return next
    }
}

extension MoveRefused {
    fileprivate static let another = MoveRefused("Another request to move the consumer came in between.")
}
