/// Opens a consumer's contexts, and fills those again that cannot go on from where they are.
extension ContextKeeper {
    /// Opens the contexts that are due, and brings those that are behind up to the cursor.
    ///
    /// A context's position and the cursor are in different files. The last writes to either may be lost
    /// in a power failure, and a context that failed was left behind.
    ///
    /// - Throws: `HistoryError` for problems of the store or the state.
    func tend(cursor: Int64, takesOwn: Bool = false) async throws {
        self.takesOwn = takesOwn
        await calls.lock()
        defer { calls.unlock() }
        try await openAll(cursor: cursor)
    }

    func openAll(cursor: Int64) async throws {
        for context in contexts where !troubles.isPaused(context.name, at: .now) {
            let failing: ContextTroubles.Stage = context.copiesRows ? .opened : .written
            try await attempting(context, failing) { try await open(context, cursor: cursor) }
        }
    }

    private func open(_ context: any MergeContext, cursor: Int64) async throws -> ContextTroubles.Stage {
        let (name, author) = (context.name, consumer.author)
        if positions[name] != nil, context.isOpen { return .opened }
        let known = try context.stateKey.map { try state.replicas.known(name, of: author, at: $0) }
        let token = try await asking(context) { try await context.open(isKnown: known?.isHere ?? false) }
        // Read before fingerprints are compared: a restored store that grows meanwhile has a fingerprint
        // there.
        let bounds = try source.bounds()
        // The context may be ahead of its consumer, whose checkpoint then does not show that the store
        // was restored.
        if let token, try isReplaced(context, known, at: token) { misled.insert(name) }
        let loss = token.flatMap { expiry(of: $0, context, bounds) }
        let isFilled = token == nil || loss != nil || known?.needsFilling ?? false || ordered.contains(name)
        let start: Int64
        if isFilled {
            start = try await refill(context, loss)
        } else {
            start = token?.number ?? 0
            if let key = context.stateKey, known?.isHere == false {
                try state.replicas.save(name, of: author, at: key, filling: nil)
            }
        }
        let position = try await catchUp(context, from: start, to: cursor)
        positions[name] = position
        reportShown(by: context)
        // Other contexts have everything by their own checkpoints, even if the call that failed brought
        // them there.
        return isFilled || position > start || !context.copiesRows ? .written : .opened
    }

    /// Whether a context has merged transactions that the store had before it was restored. Numbers do
    /// not show that, because the restored store uses them again.
    private func isReplaced(
        _ context: any MergeContext, _ known: ReplicaStore.Known?, at token: HistoryToken
    ) throws -> Bool {
        if try source.isReplaced(context.fingerprint, at: token.number) { return true }
        if try known?.isReplaced(in: source) ?? false { return true }
        return try state.given.isReplaced(context.name, of: consumer.author, in: source)
    }

    /// Why a context at a token must be filled again; nil if it need not be.
    private func expiry(of token: HistoryToken, _ context: any MergeContext, _ bounds: HistoryBounds) -> Expiry?
    {
        let isMisled = misled.contains(context.name)
        guard let loss = isMisled ? .otherStore : bounds.loss(at: token) else { return nil }
        return Expiry(reason: loss == .expired ? .expired : .restored, lost: token, after: bounds.newest)
    }

    private static let lacksCheckpoint = "it has no checkpoint in this store after it was filled"

    func refill(_ context: any MergeContext, _ loss: Expiry?) async throws -> Int64 {
        let (name, author) = (context.name, consumer.author)
        shown[name] = nil
        let filled = try await asking(context) { try await context.refill(loss) }
        guard let token = filled else { throw failure(of: context, Self.lacksCheckpoint) }
        misled.remove(name)
        // Noted before the store is read again: where that fails, the context is not filled twice.
        try state.given.forget(name, of: author)
        if let key = context.stateKey {
            // The fingerprint of the copied file.
            let fingerprint = try context.fingerprint ?? source.fingerprint(at: token.number, in: nil)
            let filling = Checkpoint(
                position: token.number, fingerprint: fingerprint, movedAt: state.clock.wall())
            try state.replicas.save(name, of: author, at: key, filling: filling)
        }
        ordered.remove(name)
        reporter.report(.replicaFilled(consumer: author, context: name, at: token))
        guard expiry(of: token, context, try source.bounds()) == nil else {
            throw failure(of: context, Self.lacksCheckpoint)
        }
        return token.number
    }

    /// Brings a context up to the cursor.
    ///
    /// - Returns: Its new position.
    private func catchUp(_ context: any MergeContext, from start: Int64, to cursor: Int64) async throws -> Int64
    {
        var position = start
        while position < cursor {
            do {
                let batch = try source.outlinedBatch(after: position)
                guard batch.end > position else { break }
                // Changes may have gone unrecorded there.
                if !context.copiesRows, let recreation = batch.transactions.first.flatMap({ Expiry($0) }) {
                    position = try await refill(context, recreation)
                    continue
                }
                let end = min(batch.end, cursor)
                let own =
                    takesOwn ? consumer.rule.own(batch.transactions, after: position, of: consumer.author) : []
                let missed = (own + relevant(batch, after: position)).filter { $0.number <= end }
                    .sorted { $0.number < $1.number }
                try await merge(
                    context.takesParts ? missed : missed.map(source.whole), through: end,
                    source.fingerprint(at: end, in: batch), into: context)
                position = end
            } catch let error as HistoryError where error.code == .tokenExpired {
                // A cleanup came in between. The context has lost history, its consumer has not.
                let lost = HistoryToken(store: source.storeID, number: position)
                position = try await refill(
                    context, Expiry(reason: .expired, lost: lost, after: try source.newestToken()))
            }
        }
        return position
    }

    func relevant(_ batch: HistoryBatch, after cursor: Int64) -> [HistoryTransaction] {
        consumer.rule.relevant(batch.transactions, after: cursor, to: consumer.author)
    }
}
