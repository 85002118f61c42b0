import GRDB

/// How far history may be deleted, and which consumers hold back the rest: a pure function of the
/// positions of all consumers.
package struct CleaningPlan: Sendable, Equatable {
    /// A consumer or feed that must have processed a transaction before it is deleted.
    package struct Holder: Sendable, Equatable {
        package let consumer: String
        /// Set for a context of the consumer that has its own position.
        package var context: String?
        /// The last transaction that it has processed; nil if there is none yet.
        package let number: Int64?
        /// How long it has left transactions unprocessed without moving.
        package let standing: Duration

        /// `Main`, `Main/view`.
        package var name: String { context.map { "\(consumer)/\($0)" } ?? consumer }
    }

    /// Everything up to here may be deleted; nil if a consumer has no position yet.
    package let number: Int64?
    /// The holders that hold back the rest, the slowest first.
    package let blockers: [Holder]
    /// The holders that have not processed everything that may be deleted: their tokens expire.
    package let passedBy: [Holder]
    /// History that is kept only because it is too young; nil if there is none.
    package private(set) var young: YoungHistory?
    /// The history that the plan was made for; nil for any history.
    var history: PlannedHistory?
    /// The consumer moves that were known when the plan was made.
    private var gate: PlannedGate?

    /// - Parameters:
    ///   - newest: The store's newest change.
    ///   - maximumDuration: How long a consumer that does not move blocks the cleanup.
    ///   - force: Whether to ignore all consumers.
    ///   - findYoung: Finds what is too young up to a position. Even `force` keeps that.
    init<E: Error>(
        _ holders: [Holder], newest: Int64, maximumDuration: Duration?, force: Bool = false,
        findYoung: (_ limit: Int64) throws(E) -> YoungHistory?
    ) throws(E) {
        let order = { (a: Holder, b: Holder) in (a.number ?? -1, a.name) < (b.number ?? -1, b.name) }
        let waiting = holders.filter { holder in
            guard !force else { return false }
            guard let maximumDuration, let number = holder.number, number < newest else { return true }
            return holder.standing <= maximumDuration
        }
        blockers = waiting.filter { $0.number ?? -1 < newest }.sorted(by: order)
        guard !waiting.contains(where: { $0.number == nil }) else {
            number = nil
            passedBy = []
            return
        }
        let had = min(waiting.compactMap(\.number).min() ?? newest, newest)
        young = try findYoung(had)
        let limit = min(had, young.map { $0.first - 1 } ?? had)
        number = limit
        passedBy = holders.filter { $0.number ?? -1 < limit }.sorted(by: order)
    }

    /// The plan for a store that keeps no history for its age.
    package init(_ holders: [Holder], newest: Int64, maximumDuration: Duration?, force: Bool = false) {
        self.init(holders, newest: newest, maximumDuration: maximumDuration, force: force) { _ in nil }
    }
}

/// A cleanup of a store: scheduled, by an operator, or by a program.
extension CleaningPlan {
    /// The plan for a store in its present state. It first moves feeds over what is not for them, so that
    /// they hold nothing back, and syncs the checkpoints that it relies on to the disk.
    init(_ store: ServedStore, source: any HistorySource, state: StateDatabase, force: Bool = false) throws {
        let gate = PlannedGate(gate: state.cleaningGate)
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
                    // A consumer that has lost history keeps none: it starts over from the present
                    // content of the store.
                    if let checkpoint, checkpoint.position < oldest { continue }
                    if let checkpoint { checkpoints.append(checkpoint) }
                    holders.append(try holder(consumer.author, feed.name, at: checkpoint))
                }
            }
        }
        // Checkpoints must not be lost after history was deleted because of them.
        try state.connection.syncToDisk()
        try self.init(holders, newest: newest, maximumDuration: store.maximumDuration, force: force) {
            try store.young(through: $0, source, state.sightings)
        }
        let relied = checkpoints.filter { $0.position >= number ?? 0 }.min { $0.position < $1.position }
        history = PlannedHistory(store: source.storeID, checkpoint: force ? nil : relied)
        // With force, a consumer that is being moved is passed by like any other.
        self.gate = force ? nil : gate
    }

    /// Deletes what the plan allows, in small steps.
    ///
    /// - Parameters:
    ///   - timeout: How long to wait for a moment without other transactions.
    ///   - shouldStop: Called between steps.
    func carryOut(
        on store: ServedStore, reporter: any PipelineReporter, timeout: Duration = HistoryCleaner.timeout,
        shouldStop: @Sendable () -> Bool
    ) async throws -> HistoryCleaner.Outcome {
        let outcome = try await HistoryCleaner(path: store.path, rule: store.rule).clean(
            through: number ?? 0, of: history, gate: gate, timeout: timeout,
            progress: { progress in
                switch progress {
                case .stepped(let effort): reporter.report(.cleaningStepped(effort))
                case .waits(let error): reporter.report(.cleaningWaits(error))
                }
            }, shouldStop: shouldStop)
        if outcome.deleted > 0 { reporter.report(.cleaned(outcome)) }
        return outcome
    }
}

extension ServedStore {
    /// Which history up to a position is too young to be deleted.
    ///
    /// - Parameter sightings: Nil without a state.
    func young(through limit: Int64, _ source: any HistorySource, _ sightings: SightingStore? = nil) throws
        -> YoungHistory?
    {
        guard keep > .zero, let reader = source.recorder else { return nil }
        let now = clock.wall()
        let time = HistoryTimestamp(milliseconds: now.milliseconds - keep.milliseconds)
        let known = try sightings?.note(try source.end(), at: now, keeping: keep, in: source) ?? 0
        return try reader.read { db in
            try YoungHistory(db, through: limit, youngerThan: time, now: now, known: known, rule: rule)
        }
    }
}

/// The consumer moves that were known when a plan was made.
struct PlannedGate: Sendable, Equatable {
    let gate: CleaningGate
    let pass: CleaningGate.Pass

    init(gate: CleaningGate) { (self.gate, pass) = (gate, gate.pass) }

    static func == (a: Self, b: Self) -> Bool { a.gate === b.gate && a.pass == b.pass }
}

/// Shows whether a history is still the one that a cleanup was planned for. Another store or a backup
/// would have history that no consumer has processed.
struct PlannedHistory: Sendable, Equatable {
    let store: StoreID
    /// A checkpoint that the plan relies on, if any.
    let checkpoint: Checkpoint?

    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    func check(_ db: Database) throws {
        let header = try HistoryHeader(db, fingerprintAt: checkpoint?.position ?? -1)
        let token = HistoryToken(store: store, number: checkpoint?.position ?? 0)
        try header.bounds.checkReaches(token)
        if header.isReplaced(checkpoint?.fingerprint) {
            throw HistoryError.ahead(token, newest: header.bounds.newest)
        }
    }
}

/// How long a lagging consumer has not moved.
///
/// There are two measures, and the shorter one counts, so that no consumer is passed by without its
/// fault. The wall clock counts from the consumer's last move or from the first transaction that it has
/// not processed, whichever is later. Served time counts only while the store is served, because a
/// consumer cannot move otherwise, and because setting the clock forward must not make a consumer late.
enum StalledTime {
    /// - Parameters:
    ///   - firstMissing: The time of the first transaction that it has not processed.
    ///   - served: How long the store has been served in all.
    static func duration(
        of checkpoint: Checkpoint, newest: Int64, firstMissing: HistoryTimestamp?, now: HistoryTimestamp,
        served: Duration
    ) -> Duration {
        guard checkpoint.position < newest else { return .zero }
        let bySession = max(.zero, served - checkpoint.movedAtServed)
        let since = max(checkpoint.movedAt, firstMissing ?? checkpoint.movedAt)
        // A time in the future is useless: the clock was set back.
        guard since <= now else { return bySession }
        return min(bySession, .milliseconds(now.milliseconds - since.milliseconds))
    }
}
