/// Merging of each batch into a consumer's contexts.
extension ContextKeeper {
    /// Lets contexts read the rows of a batch before the hooks decide.
    ///
    /// Everything is read in one snapshot of the store. Commits since the batch was fetched become part
    /// of it: rows match the batch only if nothing newer exists.
    ///
    /// - Returns: The batch to deliver.
    func stage(_ batch: HistoryBatch, cursor: Int64, takesOwn: Bool) async throws -> HistoryBatch {
        try await tend(cursor: cursor, takesOwn: takesOwn)
        let ready = contexts.filter { $0.copiesRows && positions[$0.name] != nil }
        guard batch.isLast, !ready.isEmpty, let recorder = source.recorder else { return batch }
        return try snapshots.read { store in
            let batch = try recorder.batch(store, after: cursor, beginningAs: batch)
            guard batch.isLast else { return batch }
            let own = takesOwn ? consumer.rule.own(batch.transactions, after: cursor, of: consumer.author) : []
            let wanted = PendingMerge(relevant(batch, after: cursor), own: own, after: cursor, end: batch.end)
                .toMerge
            // For a large transaction, the objects are noted in the merge, and `settle` reads their rows.
            if wanted.isEmpty || wanted.contains(where: { $0.outline != nil }) { return batch }
            for context in ready {
                do {
                    try context.stage(wanted, of: batch, from: store)
                } catch let error as HistoryError where error.isOfContext {
                    failed(context, error, .written)
                }
            }
            return batch
        }
    }

    /// The default merge.
    ///
    /// - Parameter waits: Whether the consumer waits for a context that fails.
    /// - Returns: How long it has to wait.
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) async throws -> Duration? {
        await calls.lock()
        defer { calls.unlock() }
        if waits { try await openAll(cursor: cursor) }
        let outlined = merge.toMerge
        let whole = contexts.allSatisfy(\.takesParts) ? outlined : try outlined.map(source.whole)
        for context in contexts {
            // A replica that has everything may still have rows to show.
            guard let position = positions[context.name], position < merge.end || context.copiesRows else {
                continue
            }
            try await attempting(context, .written) {
                if let recreation = merge.recreation, !context.copiesRows {
                    positions[context.name] = try await refill(context, recreation)
                } else {
                    let missed = (context.takesParts ? outlined : whole).filter { $0.number > position }
                    try await self.merge(missed, through: merge.end, merge.fingerprint, into: context)
                    positions[context.name] = max(position, merge.end)
                }
                reportShown(by: context)
                return .written
            }
        }
        return waits ? retryDelay : nil
    }

    func merge(
        _ transactions: [HistoryTransaction], through end: Int64, _ fingerprint: String?,
        into context: any MergeContext
    ) async throws {
        let token = HistoryToken(store: source.storeID, number: end)
        if !context.copiesRows {
            try state.given.save(context.name, of: consumer.author, through: end, fingerprint)
        }
        let count = try await asking(context) {
            try await context.merge(transactions, through: token, fingerprint)
        }
        guard count > 0, let last = transactions.last?.token else { return }
        reporter.report(
            .merged(consumer: consumer.author, context: context.name, transactions: count, last: last))
    }

    /// The store's schema has changed.
    func followSchema() { for context in contexts { context.schemaChanged() } }

    /// Once their consumer has caught up, lets contexts show everything that they have merged, and follow
    /// the store's schema.
    func bringUpToDate(cursor: Int64, _ fingerprint: String? = nil) async throws {
        let outdated = contexts.filter { $0.isOutdated && positions[$0.name] != nil }
        if retryDelay != nil || !outdated.allSatisfy(\.isOpen) {
            try await tend(cursor: cursor, takesOwn: takesOwn)
        }
        await calls.lock()
        defer {
            for context in contexts { reportShown(by: context, through: cursor) }
            calls.unlock()
        }
        for context in contexts where context.isOutdated {
            guard let position = positions[context.name] else { continue }
            try await attempting(context, .written) {
                // The consumer has moved past what does not concern it. That brings the context up to
                // date, too.
                if position < cursor {
                    try await merge([], through: cursor, fingerprint, into: context)
                    positions[context.name] = cursor
                }
                return try context.bringUpToDate() ? .written : .opened
            }
        }
    }
}
