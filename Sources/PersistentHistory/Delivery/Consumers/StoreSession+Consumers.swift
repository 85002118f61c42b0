/// What the session keeps and saves for its consumers.
extension StoreSession {
    func consumerPrepared() {
        unprepared -= 1
        guard unprepared == 0, !isSingleRun else { return }
        // A consumer's contexts may have used it.
        do { try opened.state.close() } catch { end(error) }
    }

    func consumerEnded(_ error: (any Error)?) {
        running -= 1
        if let error { end(error) }
        if running == 0 { resumeWaiter() }
    }

    /// Whether a consumer has not caught up.
    var isAtWork: Bool {
        runners.values.contains { !$0.isIdle }
    }

    func caughtUp(_ author: String, _ brought: Bool) {
        guard let runner = runners[author] else { return }
        if brought {
            lastCommit = .now
            // History that came while the consumer was idle counts as one notification, too.
            do { try opened.cleaning.countNotification(through: runner.cursor) } catch { end(error) }
        }
        stoppedWorking(author)
        if isSingleRun { finish(runner) }
        if mayForgetPages, unfinished == 0 {
            mayForgetPages = false
            perform { $0.opened.source.forgetPages() }
        }
    }

    func noteAtWork(_ woken: some Sequence<ConsumerRunner>) {
        for runner in woken where !runner.isWaiting && !runner.isUnfinished {
            runner.isUnfinished = true
            unfinished += 1
        }
    }

    func noteAtWork(_ author: String) { noteAtWork(runners[author].map { [$0] } ?? []) }

    /// Wakes cleaning when no consumer is at work: a turn before the slowest has finished would delete
    /// only a part. A consumer that has failed may hold history back for long, and is not waited for.
    func stoppedWorking(_ author: String) {
        if let runner = runners[author], runner.isUnfinished {
            runner.isUnfinished = false
            unfinished -= 1
        }
        if unfinished == 0 { opened.cleaning.mayDeleteMore() }
    }

    /// Cursors that moved past unrelated history are saved together, a second after the first of them.
    func saveCursors() async {
        for await _ in opened.state.cursors.hasUnsaved {
            await opened.ending.sleep(for: .seconds(1))
            do { try await saveAllUntilItWorks() } catch { end(error) }
        }
    }

    /// A damaged state is created again, whichever part has found the damage.
    func endWhenDamaged() async {
        let connection = opened.state.connection
        for await _ in connection.damaged { end(connection.damage) }
    }

    /// A full disk delays no consumer here: unsaved cursors only cause another fetch after a crash.
    func saveAllUntilItWorks() async throws {
        var pause = GrowingPause()
        while true {
            do {
                try opened.state.cursors.flush()
                if pause.isLasting { opened.reporter.report(.stateRecovered) }
                return
            } catch let error as HistoryError
                where error.isOfState && error.code != .stateDamaged && !opened.ending.isSignaled
            {
                let delay = pause.next()
                if pause.hasBegunToLast { opened.reporter.report(.stateFailed(error)) }
                await opened.ending.sleep(for: delay)
            }
        }
    }

    func wakeAll(atOnce: Bool = false) {
        noteAtWork(runners.values)
        for runner in runners.values { runner.wakeUp(atOnce: atOnce) }
    }
}
