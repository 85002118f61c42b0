/// Operations on an open store. All throw `HistoryError`, with `.storeNotOpen` if it is not open.
extension StoreControl {
    /// Where the history begins and ends, and the positions of the consumers.
    package struct Positions: Sendable {
        let bounds: HistoryBounds
        package let cursors: [BinaryText: Checkpoint]
        package let feeds: [FeedStanding]
        /// The consumers that are still working: a replica may not show everything up to the cursor.
        package let working: Set<String>
        /// When the batch windows of gathering consumers end.
        package let windows: [String: HistoryTimestamp]
        /// How many calls were given up, by consumer.
        package let deadLetters: [String: Int]
        /// Where consumers that were moved back had been.
        package let reached: [BinaryText: Int64]

        package var oldest: HistoryToken { bounds.oldest }
        package var newest: HistoryToken { bounds.newest }
    }

    package func positions(within limit: Duration = StoreSession.answerTimeout) async throws -> Positions {
        if let rest = try await restWithoutNews(within: limit) { return rest.positions }
        return try await ask(within: limit, awakening: false) { [clients = seats.clients] in
            try $0.positions(clients)
        }
    }

    /// Looks for new history without waiting for a signal, and retries what failed.
    ///
    /// - Parameter limit: How long to wait for the store's thread.
    /// - Returns: The newest token. Consumers whose cursor is there have caught up.
    package func passNow(within limit: Duration) async throws -> HistoryToken {
        // First, so that a consumer that the look wakes finds the request.
        passes.tryNow()
        return try await retryingWhileBusy { try await ask(within: limit) { try $0.lookNow() } }
    }

    /// Checks that a token belongs to this store and is not ahead of it.
    ///
    /// - Parameter end: When to stop waiting for the store's thread.
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

    /// A manual cleaning: its plan and, unless it was a dry run, its outcome.
    package struct Cleaning: Sendable {
        package let report: CleaningReport
        package let outcome: HistoryCleaner.Outcome?
    }

    /// Deletes history manually, or reports what would be deleted.
    ///
    /// - Parameter force: Whether to ignore all consumers.
    package func clean(dryRun: Bool, force: Bool) async throws -> Cleaning {
        try await withSession { try await $0.clean(dryRun: dryRun, force: force) }
    }

    /// How many changes by unlisted authors are kept forever; nil if they are delivered or cleaned.
    package func unlistedChanges() async throws -> Int? {
        try await withSession(awakening: false) { session in
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

    /// - Returns: False if there is no such dead letter.
    package func dropDeadLetter(_ number: Int64) async throws -> Bool {
        try await ask { try $0.state.deadLetters.drop(number) }
    }

    /// Records another failure of a dead letter's call.
    package func noteFailure(of number: Int64, _ reason: String) async throws {
        try await ask { try $0.state.deadLetters.countFailure(of: number, reason) }
    }

    // MARK: Trials

    /// The parameters of the call that a transaction makes to a hook, or without a token, of a sample
    /// call.
    ///
    /// - Returns: Nil if nothing of the transaction is for the hook.
    package func parameters(of trial: TrialCall, token: HistoryToken?) async throws -> [UInt8]? {
        try await reading { source in
            guard let token else { return trial.invented(try source.entities()) }
            return try trial.parameters(of: token, in: source)
        }
    }

    // MARK: Following

    /// Delivers transactions in order as they are committed, until the task is cancelled. It waits while
    /// the store is not open.
    ///
    /// - Parameters:
    ///   - after: Where to begin; nil begins with the next commit.
    ///   - wanted: Which authors' transactions are wanted.
    ///   - begun: Called when no later commit can be missed.
    ///   - deliver: Receives the transactions, a large one in parts. It is awaited: nothing is read ahead
    ///     for a slow reader.
    /// - Throws: `HistoryError` if the token has expired or does not belong to this store, perhaps
    ///   because the store was replaced, or if the store is not open at first; and what `begun` and
    ///   `deliver` throw.
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

    /// Nil while the store is not open. The signal is notified when it opens.
    private func next(after token: HistoryToken) async throws -> HistoryBatch? {
        do {
            return try await reading { source in
                guard token.store == source.storeID else {
                    // If the file was replaced, this throws.
                    try source.check(after: token)
                    return nil
                }
                return try source.outlinedBatch(after: token.number)
            }
        } catch let error as HistoryError where error.code == .storeNotOpen {
            return nil
        }
    }

    /// Reads through a separate connection, on the pool. Neither the loop nor the consumers wait for it,
    /// however large a transaction is.
    private func reading<T: Sendable>(_ body: @escaping @Sendable (any HistorySource) throws -> T) async throws
        -> T
    {
        try await withSession { session in
            let source = session.source
            return try await onPool { () async throws -> T in try source.reading(timeout: .seconds(1), body) }
        }
    }
}

/// What a follower of a history receives.
package enum FollowedHistory: Sendable {
    case transactions([HistoryTransaction])
    /// Some changes of a transaction that is too large to be held in memory.
    case part([HistoryChange], of: HistoryTransaction, isFirst: Bool, isLast: Bool)

    /// The same without the preserved values of deleted rows, for a reader that may not read the store.
    package var withoutValues: FollowedHistory {
        switch self {
        case .transactions(let transactions): .transactions(transactions.map(\.withoutValues))
        case .part(let changes, let transaction, let isFirst, let isLast):
            .part(changes.map(\.withoutValues), of: transaction, isFirst: isFirst, isLast: isLast)
        }
    }

    /// Writes lines of JSON, one for each transaction. The line of a large transaction begins with its
    /// first part and ends with its last.
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
