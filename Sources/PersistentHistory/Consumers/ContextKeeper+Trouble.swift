/// What happens when a replica fails, or may fail soon.
extension ContextKeeper {
    func watchLog(of replica: Replica) {
        let (size, context) = (replica.logSize, replica.context)
        if size < Self.muchLog / 2 {
            logTold.remove(context.name)
        } else if size > Self.muchLog, logTold.insert(context.name).inserted {
            reporter.report(
                .replicaLogGrows(consumer: consumer.author, context: context.name, bytes: size))
        }
    }

    // MARK: Trouble

    /// Lets a context try. A failure of the context alone is kept for later.
    ///
    /// - Parameters:
    ///   - stage: The stage that a failure shows to fail.
    ///   - body: Returns the stage that it reached.
    func attempting(
        _ replica: Replica, _ stage: ContextTroubles.Stage, _ body: () throws -> ContextTroubles.Stage
    ) throws {
        let (author, name) = (consumer.author, replica.context.name)
        do {
            let reached = try body()
            guard let attempts = troubles.succeed(name, at: reached, now: .now) else { return }
            reporter.report(.contextRecovered(consumer: author, context: name, attempts: attempts))
        } catch let error as HistoryError
            where error.code == .replicaUnwritable || error.code == .replicaDamaged
        {
            replica.close()
            ready.remove(name)
            let attempt = troubles.fail(name, error, at: stage, now: .now)
            reporter.report(.contextFailed(consumer: author, context: name, error, attempt: attempt))
        }
    }
}
