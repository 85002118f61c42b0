/// What an operator may ask of an open store.
extension StoreSession {
    func places() throws -> StoreControl.Places {
        StoreControl.Places(
            oldest: try reader.oldestToken(), newest: try reader.newestToken(), cursors: try state.cursors())
    }

    /// Looks as after a signal, and wakes the consumers whatever was found.
    func lookNow() async throws -> HistoryToken {
        _ = try await fetcher.look()
        for bell in bells { bell.ring() }
        return try reader.newestToken()
    }

    func resync(_ name: String, of author: String) async throws -> HistoryToken {
        for (consumer, _) in runners where consumer.author == author {
            for context in consumer.contexts where context.name == name {
                try await context.resync()
                let token = HistoryToken(store: reader.storeID, number: try await context.prepare().number)
                reporter.report(.replicaFilled(consumer: author, context: name, at: token))
                return token
            }
        }
        throw HistoryError(.unknownContext, "Consumer \"\(author)\" has no context \"\(name)\".")
    }

    func clean(dryRun: Bool, force: Bool) async throws -> CleaningReport {
        let newest = try reader.newestToken()
        let limit = CleaningLimit(
            consumers: Set(store.consumers.map(\.author)), cursors: try state.cursors(), newest: newest.number,
            now: .now, maximumDuration: store.maximumDuration)
        var report = CleaningReport()
        let number = force ? newest.number : limit.number
        if force { report.passedBy = limit.blockers } else { report.keptFor = limit.blockers }
        guard let number else { return report }
        report.through = HistoryToken(store: reader.storeID, number: number)
        if dryRun { return report }
        let outcome = try await HistoryCleaner(path: store.path, rule: store.rule)
            .clean(through: number, shouldStop: { [ending] in ending.isRequested })
        report.changes = outcome.deleted
        if outcome.deleted > 0 {
            reporter.report(.cleaned(deleted: outcome.deleted, through: outcome.floor))
        }
        // Those who were passed by find out, and begin anew.
        if force { for bell in bells { bell.ring() } }
        return report
    }

    // MARK: Dead letters

    func deadLetters() throws -> [NumberedDeadLetter] { try state.numberedDeadLetters() }
    func dropDeadLetter(_ number: Int64) throws -> Bool { try state.dropDeadLetter(number) }
    func noteFailure(of number: Int64, _ reason: String) throws {
        try state.noteFailure(of: number, reason)
    }
}
