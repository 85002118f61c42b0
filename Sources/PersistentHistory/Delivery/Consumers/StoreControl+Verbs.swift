/// What can be asked of an open store. Everything throws `HistoryError`, with `.storeNotOpen` where
/// it is not.
extension StoreControl {
    /// Where the history begins and ends, and how far the consumers got.
    package struct Positions: Sendable {
        let bounds: HistoryBounds
        package let cursors: [BinaryText: Checkpoint]
        package let feeds: [FeedStanding]
        /// The consumers that have not come to the end of their work: a replica may not show all up to the cursor.
        package let working: Set<String>
        /// When the batch windows end of those that gather commits.
        package let windows: [String: HistoryTimestamp]
        /// How many calls were given up, by consumer.
        package let deadLetters: [String: Int]
        /// Where consumers had been that were moved back.
        package let reached: [BinaryText: Int64]

        package var oldest: HistoryToken { bounds.oldest }
        package var newest: HistoryToken { bounds.newest }
    }

    package func positions(within limit: Duration = StoreSession.answerTimeout) async throws -> Positions {
        try await ask(within: limit) { [clients = seats.clients] in try $0.positions(clients) }
    }

    /// Looks for what is new, without waiting for a sign, and has what failed tried again.
    ///
    /// - Parameter limit: How long to wait for the store's thread.
    /// - Returns: The newest token there is now: those whose cursor is there are level.
    package func passNow(within limit: Duration) async throws -> HistoryToken {
        // First, so that a consumer woken by the look finds the order.
        passes.tryNow()
        return try await retryingWhileBusy { try await ask(within: limit) { try $0.lookNow() } }
    }

    /// Checks that a token is of this store, and not from its future.
    ///
    /// - Parameter limit: How long to wait for the store's thread.
    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    package func check(_ token: HistoryToken, until end: ContinuousClock.Instant) async throws {
        let positions = try await retryingWhileBusy { () async throws -> Positions in
            try await self.positions(within: max(.zero, end - .now))
        }
        try positions.bounds.checkReaches(token)
    }

    /// Fills a consumer's context again from the store.
    ///
    /// - Returns: What it shows now.
    package func resync(_ context: String, of consumer: String) async throws -> HistoryToken {
        try await withSession { try await $0.resync(context, of: consumer) }
    }

    /// A cleaning by hand: what was planned, and unless it was for show, what came of it.
    package struct Cleaning: Sendable {
        package let report: CleaningReport
        package let outcome: HistoryCleaner.Outcome?
    }

    /// Deletes history by hand, or says what would go.
    ///
    /// - Parameter force: Whether to wait for no consumer.
    package func clean(dryRun: Bool, force: Bool) async throws -> Cleaning {
        try await withSession { try await $0.clean(dryRun: dryRun, force: force) }
    }

    /// How many changes by unlisted authors are kept for ever; nil where they are delivered or cleaned.
    package func unlistedChanges() async throws -> Int? {
        try await withSession { session in
            let (store, unlisted) = (session.store, session.opened.unlisted)
            guard !store.rule.deliversUnlisted, !store.rule.cleansUnlisted, session.source.recorder != nil
            else {
                return nil
            }
            return try await session.opened.reports.perform(within: StoreSession.answerTimeout) {
                try unlisted.count(in: store.path, store.rule)
            }
        }
    }

    // MARK: Dead letters

    package func deadLetters() async throws -> [NumberedDeadLetter] {
        try await ask { try $0.state.deadLetters.all() }
    }

    /// - Returns: False if there is none of that number.
    package func dropDeadLetter(_ number: Int64) async throws -> Bool {
        try await ask { try $0.state.deadLetters.drop(number) }
    }

    /// Notes that a dead letter's call failed once more.
    package func noteFailure(of number: Int64, _ reason: String) async throws {
        try await ask { try $0.state.deadLetters.countFailure(of: number, reason) }
    }

    // MARK: Trials

    /// The parameters of the call that a transaction makes to a hook; without a token, of one that is invented.
    ///
    /// - Returns: Nil if nothing of the transaction is for the hook.
    package func parameters(of trial: TrialCall, token: HistoryToken?) async throws -> [UInt8]? {
        try await reading { source in
            guard let token else { return trial.invented(try source.entities()) }
            return try trial.parameters(of: token, in: source)
        }
    }

    // MARK: Following

    /// Hands on transactions as they are committed, in their order, until the task is cancelled. While
    /// the store is not open it waits.
    ///
    /// - Parameters:
    ///   - after: Where to begin; nil begins with what comes.
    ///   - wanted: Which authors' transactions are wanted.
    ///   - begun: Called when no commit from now on can be missed.
    ///   - deliver: Is waited for: a slow reader is not read ahead for. A large transaction comes in parts.
    /// - Throws: `HistoryError` if the token has expired or is none of this store, perhaps because that
    ///   was replaced, or if it is not open to begin with; and what `begun` and `deliver` throw.
    package func follow(
        after: HistoryToken?, wanted: (String?) -> Bool, begun: () async throws -> Void,
        deliver: (FollowedHistory) async throws -> Void
    ) async throws {
        try await following { wakeUp in
            var token = try await retryingWhileBusy {
                try await ask { session in
                    let token = try after ?? session.source.newestToken()
                    try session.source.check(after: token)
                    return token
                }
            }
            try await begun()
            wakeUp.notify()
            for await _ in wakeUp {
                while !Task.isCancelled,
                    let batch = try await retryingWhileBusy({ try await next(after: token) })
                {
                    let transactions = batch.transactions.filter { wanted($0.author) }
                    if let large = transactions.first, large.outline != nil {
                        try await deliverParts(of: large, deliver)
                    } else if !transactions.isEmpty {
                        try await deliver(.transactions(transactions))
                    }
                    token = HistoryToken(store: token.store, number: max(batch.end, token.number))
                    if batch.isLast { break }
                }
                if over.isSignaled { break }
            }
            if over.isSignaled { throw Self.isOver }
        }
    }

    static var isOver: HistoryError { HistoryError(.storeNotOpen, "The store is no longer served.") }

    private func deliverParts(
        of transaction: HistoryTransaction, _ deliver: (FollowedHistory) async throws -> Void
    ) async throws {
        let parts = UnreadChanges.parts(of: transaction)
        for (index, part) in parts.enumerated() {
            let changes = try await retryingWhileBusy { try await reading { try $0.changes(part).changes } }
            try await deliver(
                .part(changes, of: transaction, isFirst: index == 0, isLast: index == parts.count - 1))
        }
    }

    /// Nil while the store is not open; the signal is notified when it opens.
    private func next(after token: HistoryToken) async throws -> HistoryBatch? {
        do {
            return try await reading { source in
                guard token.store == source.storeID else {
                    // Another file: this says so.
                    try source.check(after: token)
                    return nil
                }
                return try source.outlinedBatch(after: token.number)
            }
        } catch let error as HistoryError where error.code == .storeNotOpen {
            return nil
        }
    }

    /// Reads by a connection of its own, on the pool: neither the loop nor the consumers wait for it, however large a
    /// transaction is.
    private func reading<T: Sendable>(_ body: @escaping @Sendable (any HistorySource) throws -> T) async throws
        -> T
    {
        try await withSession { session in
            let source = session.source
            return try await onPool { () async throws -> T in try source.reading(timeout: .seconds(1), body) }
        }
    }
}

/// What somebody gets that follows a history.
package enum FollowedHistory: Sendable {
    case transactions([HistoryTransaction])
    /// Some changes of a transaction that is too large to be held in memory.
    case part([HistoryChange], of: HistoryTransaction, isFirst: Bool, isLast: Bool)

    /// The same without what deleted rows preserve, for who may not read the store.
    package var withoutValues: FollowedHistory {
        switch self {
        case .transactions(let transactions): .transactions(transactions.map(\.withoutValues))
        case .part(let changes, let transaction, let isFirst, let isLast):
            .part(changes.map(\.withoutValues), of: transaction, isFirst: isFirst, isLast: isLast)
        }
    }

    /// As lines of JSON, one for each transaction. That of a large one begins with its first part and ends with its
    /// last.
    package func write(to json: inout JSONBytes) {
        switch self {
        case .transactions(let transactions):
            for transaction in transactions {
                HistoryJSON.write(transaction, to: &json)
                json.endLine()
            }
        case .part(let changes, let transaction, let isFirst, let isLast):
            HistoryJSON.write(changes, of: transaction, isFirst: isFirst, isLast: isLast, to: &json)
            if isLast { json.endLine() }
        }
    }
}

extension HistoryTransaction {
    fileprivate var withoutValues: HistoryTransaction {
        changes.contains { $0.tombstone != nil } ? with(changes.map(\.withoutValues)) : self
    }
}

extension HistoryChange {
    fileprivate var withoutValues: HistoryChange {
        HistoryChange(
            entity: entity, operation: operation, objectID: objectID, changedProperties: changedProperties,
            unnamedProperties: unnamedProperties)
    }
}
