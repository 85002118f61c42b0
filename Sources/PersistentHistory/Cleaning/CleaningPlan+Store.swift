/// One cleanup of a store: by its schedule, by an operator, or by a program.
extension CleaningPlan {
    /// The plan for a store as it is. What is not for a feed is skipped first, so that it holds nothing back, and
    /// the checkpoints that the plan relies on are brought to the disk.
    init(_ store: ServedStore, source: any HistorySource, state: StateDatabase, force: Bool = false) throws {
        try FeedKeeper(store: store, source: source, state: state, reporter: SilentReporter())
            .skipWhatIsNotSent()
        let newest = try source.newestToken().number
        try state.saveServed(newest: newest)
        let cursors = try state.cursors.saved()
        var checkpoints = store.mustHaveHad.compactMap { cursors[$0] }
        func holder(_ consumer: String, _ context: String? = nil, at checkpoint: Checkpoint?) throws -> Holder {
            guard let checkpoint else {
                return Holder(consumer: consumer, context: context, number: nil, standing: .zero)
            }
            let standing = StalledTime.duration(
                of: checkpoint, newest: newest, firstMissing: try source.time(after: checkpoint.position),
                now: store.clock.wall(), served: state.served)
            return Holder(consumer: consumer, context: context, number: checkpoint.position, standing: standing)
        }
        var holders = try store.mustHaveHad.map { try holder($0, at: cursors[$0]) }
        if store.hasFeeds {
            let feeds = try state.feeds.all()
            let oldest = try source.oldestToken().number
            for consumer in store.consumers {
                for feed in consumer.feeds {
                    let id = FeedID(consumer: consumer.author, context: feed.name)
                    let checkpoint = feeds[id]?.checkpoint
                    // One that has lost history keeps none: it starts over from the store as it is.
                    if let checkpoint, checkpoint.position < oldest { continue }
                    if let checkpoint { checkpoints.append(checkpoint) }
                    holders.append(try holder(consumer.author, feed.name, at: checkpoint))
                }
            }
        }
        // What is deleted from the store because of these checkpoints must not outlive them.
        try state.syncToDisk()
        try self.init(holders, newest: newest, maximumDuration: store.maximumDuration, force: force) {
            try store.young(through: $0, source)
        }
        let relied = checkpoints.filter { $0.position >= number ?? 0 }.min { $0.position < $1.position }
        history = PlannedHistory(store: source.storeID, checkpoint: force ? nil : relied)
    }

    /// Deletes what the plan allows, in small steps.
    ///
    /// - Parameter shouldStop: Called between steps.
    func carryOut(
        on store: ServedStore, reporter: any PipelineReporter, shouldStop: @Sendable () -> Bool
    ) async throws -> HistoryCleaner.Outcome {
        let outcome = try await HistoryCleaner(path: store.path, rule: store.rule)
            .clean(through: number ?? 0, of: history, shouldStop: shouldStop)
        if outcome.deleted > 0 { reporter.report(.cleaned(outcome)) }
        return outcome
    }
}

extension ServedStore {
    /// What of the history up to a position is too young to be deleted.
    func young(through limit: Int64, _ source: any HistorySource) throws -> YoungHistory? {
        guard keep > .zero, let reader = source.recorder else { return nil }
        let time = HistoryTimestamp(milliseconds: clock.wall().milliseconds - keep.milliseconds)
        return try reader.read { db in
            try YoungHistory(db, through: limit, youngerThan: time, rule: rule)
        }
    }
}
