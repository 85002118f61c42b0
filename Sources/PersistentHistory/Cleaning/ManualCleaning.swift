/// Cleaning by hand, under the same rule as the daemon's own, whether one runs or not.
///
/// It works on the store and the state database as they are. Cursors only move forward, so that a
/// daemon that works meanwhile makes no plan wrong; neither do two cleanups at a time.
public struct ManualCleaning: Sendable {
    private let store: ServedStore
    private let stateFolder: String

    public init(_ store: ServedStore, stateFolder: String) {
        self.store = store
        self.stateFolder = stateFolder
    }

    /// What would go, and who holds back what. Nothing is deleted, and nothing else written.
    ///
    /// - Parameter force: Whether nobody is waited for; `passedBy` names those who lose history.
    /// - Throws: `HistoryError`.
    public func report(force: Bool = false) throws -> CleaningReport {
        let reader = try HistoryReader(path: store.path)
        let plan = try plan(reader, force: force)
        let report = try reader.read { db in try CleaningReport(plan, rule: store.rule, db) }
        try reader.close()
        return report
    }

    /// Deletes what the report says.
    ///
    /// - Parameter shouldStop: Asked between steps.
    /// - Returns: What was planned, and what came of it.
    /// - Throws: `HistoryError`.
    public func clean(force: Bool = false, shouldStop: @Sendable () -> Bool = { false }) async throws
        -> (report: CleaningReport, outcome: HistoryCleaner.Outcome)
    {
        return try await WriterProbes.shared.withLease(on: store.path, stateFolder: stateFolder) {
            let report = try report(force: force)
            let outcome = try await HistoryCleaner(path: store.path, rule: store.rule)
                .clean(through: report.floorAfter.number, shouldStop: shouldStop)
            return (report, outcome)
        }
    }

    private func plan(_ reader: HistoryReader, force: Bool) throws -> CleaningPlan {
        // Without a state nobody has had anything; it is not made for that.
        guard FileID(of: StateDatabase.path(folder: stateFolder, store: reader.storeID)) != nil else {
            let holders = store.mustHaveHad.map {
                CleaningPlan.Holder(consumer: $0, number: nil, standing: .zero)
            }
            return CleaningPlan(
                holders, newest: try reader.newestToken().number, maximumDuration: store.maximumDuration,
                force: force)
        }
        let state = try StateDatabase(folder: stateFolder, store: reader.storeID, clock: store.clock)
        try FeedKeeper(store: store, reader: reader, state: state, reporter: SilentReporter()).settle()
        let plan = try CleaningPlan(store, reader: reader, state: state, force: force)
        try state.close()
        return plan
    }
}

extension CleaningPlan {
    /// The plan for a store as it stands.
    ///
    /// - Throws: `HistoryError`.
    init(_ store: ServedStore, reader: HistoryReader, state: StateDatabase, force: Bool = false) throws {
        let cursors = try state.cursors.saved()
        let newest = try reader.newestToken().number
        func holder(_ consumer: String, _ context: String? = nil, at checkpoint: Checkpoint?) throws -> Holder {
            guard let checkpoint else {
                return Holder(consumer: consumer, context: context, number: nil, standing: .zero)
            }
            let standing = Standstill.duration(
                of: checkpoint, newest: newest, firstMissing: try reader.time(after: checkpoint.position),
                now: store.clock.wall(), served: state.served)
            return Holder(consumer: consumer, context: context, number: checkpoint.position, standing: standing)
        }
        var holders = try store.mustHaveHad.map { try holder($0, at: cursors[$0]) }
        if store.consumers.contains(where: { !$0.feeds.isEmpty }) {
            let places = try state.feeds.all()
            let oldest = try reader.oldestToken().number
            for consumer in store.consumers {
                for feed in consumer.feeds {
                    let id = FeedID(consumer: consumer.author, context: feed.name)
                    let place = places[id]?.checkpoint
                    // One that has lost history keeps none: it begins anew from the store as it is.
                    if let place, place.position < oldest { continue }
                    holders.append(try holder(consumer.author, feed.name, at: place))
                }
            }
        }
        // What is deleted from the store because of these places must not outlive them.
        try state.syncToDisk()
        self.init(holders, newest: newest, maximumDuration: store.maximumDuration, force: force)
    }
}
