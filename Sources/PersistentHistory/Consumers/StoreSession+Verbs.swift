/// What an operator may ask of an open store.
extension StoreSession {
    func places(_ clients: [FeedID: Int32]) throws -> StoreControl.Places {
        StoreControl.Places(
            oldest: try reader.oldestToken(), newest: try reader.newestToken(),
            cursors: try state.cursors.all(), feeds: try feedStandings(clients),
            deadLetters: try state.deadLetters.counts())
    }

    /// Looks as after a signal, and wakes the consumers whatever was found.
    func lookNow() async throws -> HistoryToken {
        _ = try await look()
        ringAll()
        return try reader.newestToken()
    }

    func resync(_ name: String, of author: String) async throws -> HistoryToken {
        for (consumer, runner) in runners where consumer.author == author {
            if let token = try await runner.resync(name) { return token }
        }
        throw HistoryError.unknownContext(name, "context", of: author)
    }

    func clean(dryRun: Bool, force: Bool) async throws -> StoreControl.Cleaning {
        try await onPool { try await cleanNow(dryRun: dryRun, force: force) }
    }

    private func cleanNow(dryRun: Bool, force: Bool) async throws -> StoreControl.Cleaning {
        let plan = try CleaningPlan(store, reader: reader, state: state, force: force)
        // It reads all of the history: by a connection of its own, so that nobody waits for the other.
        let ownReader = try HistoryReader(path: store.path)
        let result = Result { try ownReader.read { db in try CleaningReport(plan, rule: store.rule, db) } }
        try ownReader.close()
        let report = try result.get()
        if dryRun { return StoreControl.Cleaning(report: report, outcome: nil) }
        let outcome = try await plan.carryOut(on: store, reporter: reporter) { [ending] in ending.isRequested }
        // Those who were passed by find out, and begin anew.
        if !plan.passedBy.isEmpty { ringAll() }
        return StoreControl.Cleaning(report: report, outcome: outcome)
    }

    // MARK: Dead letters

    func deadLetters() throws -> [NumberedDeadLetter] { try state.deadLetters.all() }
    func dropDeadLetter(_ number: Int64) throws -> Bool { try state.deadLetters.drop(number) }
    func noteFailure(of number: Int64, _ reason: String) throws {
        try state.deadLetters.countFailure(of: number, reason)
    }
}
