/// What the session does for each of its consumers.
extension StoreSession {
    func serve(_ consumer: Consumer, _ runner: ConsumerRunner, _ bell: Bell) async throws {
        try await retrying(consumer, runner) { try await runner.prepare() }
        // What most stores of many do not need until something is saved.
        if unprepared.withLock({
            $0 -= 1; return $0 == 0
        }) {
            try state.close()
        }
        let (delays, delay) = AsyncStream.makeStream(of: Duration.self, bufferingPolicy: .bufferingNewest(1))
        try await withThrowingTaskGroup(of: Void.self) { group in
            // A context that failed is tried again also where nobody commits.
            group.addTask {
                for await delay in delays {
                    await self.ending.sleep(for: delay)
                    bell.ring()
                }
            }
            defer { delay.finish() }
            for await _ in bell {
                try await retrying(consumer, runner) {
                    if try await runner.pass() { try self.cleaning.countPass() }
                }
                if let wait = await runner.retryDelay { delay.yield(wait) }
            }
        }
    }

    /// Retries what heals; what does not ends the session.
    private func retrying(_ consumer: Consumer, _ runner: ConsumerRunner, _ body: () async throws -> Void)
        async throws
    {
        var failures = 0
        var isStateFailing = false
        while !ending.isRequested, !Task.isCancelled {
            do {
                try await body()
                if isStateFailing { reporter.report(.stateRecovered) }
                return
            } catch let error as HistoryError where error.code == .tokenExpired || error.code == .tokenAhead {
                try await beginAnew(consumer, runner, error)
            } catch let error as HistoryError where error.heals {
                failures += 1
                let delay = Backoff.delay(afterFailures: failures)
                // A lock is held now and then; it is worth a word when it lasts.
                if failures == 5 {
                    isStateFailing = error.isOfState
                    if isStateFailing { reporter.report(.stateFailed(error)) }
                    reporter.report(.consumerFailed(consumer: consumer.author, error, retryAfter: delay))
                }
                await ending.sleep(for: delay)
            }
        }
    }

    /// A consumer whose place no longer exists goes on where history is, has its contexts filled
    /// anew, and its hooks told.
    private func beginAnew(_ consumer: Consumer, _ runner: ConsumerRunner, _ error: HistoryError) async throws {
        reporter.report(.tokenExpired(consumer: consumer.author, error))
        let isAhead = error.code == .tokenAhead
        let lost = HistoryToken(store: reader.storeID, number: await runner.cursor)
        let expiry = Expiry(
            reason: isAhead ? .restored : .expired, lost: lost,
            after: isAhead ? try reader.newestToken() : try reader.oldestToken())
        try await runner.begin(expiry)
        reporter.report(.consumerStands(consumer: consumer.author, at: expiry.after))
    }

    /// Cursors that moved past what is of no concern are saved together, a second after the first of them.
    func saveCursors() async throws {
        for await _ in state.cursors.hasUnsaved {
            await ending.sleep(for: .seconds(1))
            try await saveAllUntilItWorks()
        }
    }

    /// A full disk holds up nobody here: what is not saved is looked at once more after a crash.
    private func saveAllUntilItWorks() async throws {
        var failures = 0
        while true {
            do {
                try state.cursors.flush()
                if failures >= 5 { reporter.report(.stateRecovered) }
                return
            } catch let error as HistoryError where error.isOfState && !ending.isRequested {
                failures += 1
                if failures == 5 { reporter.report(.stateFailed(error)) }
                await ending.sleep(for: Backoff.delay(afterFailures: failures))
            }
        }
    }

    /// Works off everything there is, once: for cron, and for tests.
    func runOnce() async throws {
        async let _ = passOnStop()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (consumer, runner) in runners {
                group.addTask {
                    try await self.ending.cancelling(after: self.grace) {
                        try await self.passOnce(consumer, runner)
                    }
                }
            }
            try await group.waitForAll()
        }
        await cleaning.cleanIfDue()
    }

    private func passOnce(_ consumer: Consumer, _ runner: ConsumerRunner) async throws {
        try await retrying(consumer, runner) {
            try await runner.prepare()
            if try await runner.pass() { try cleaning.countPass() }
            try state.cursors.flush()
            while let delay = await runner.retryDelay, !ending.isRequested {
                if let trouble = await runner.lastingTrouble { throw trouble }
                await ending.sleep(for: delay)
                if try await runner.pass() { try cleaning.countPass() }
            }
        }
    }

    /// Until the task is cancelled.
    func passOnStop() async {
        await stop.wait()
        if stop.isRequested { ending.request() }
    }
}
