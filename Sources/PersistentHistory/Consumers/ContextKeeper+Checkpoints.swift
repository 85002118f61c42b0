/// Contexts that know by themselves how far they are: the program's own, and those that plugins keep.
extension ContextKeeper {
    func open(_ context: any HistoryContext, cursor: Int64) async throws {
        let known = try await asking(context) { try await context.checkpoint() }
        let condition = try await (context as? PluginMerger)?.condition()
        if condition?.isReplaced ?? false { misled.insert(context.name) }
        let loss = try known.flatMap { try expiry(of: $0, context) }
        let position: Int64
        if let known, loss == nil, condition?.needsFilling != true {
            position = known.number
        } else {
            position = try await refill(context, loss)
        }
        positions[context.name] = try await catchUp(from: position, to: cursor) { missed, end in
            let missed = context is PluginMerger ? missed : try missed.map(source.whole)
            try await take(missed, through: end, context)
        } refill: {
            try await refill(context, $0)
        }
    }

    /// Why a context that is at a token must be filled again; nil if it need not.
    private func expiry(of token: HistoryToken, _ context: any HistoryContext) throws -> Expiry? {
        let (oldest, newest) = (try source.oldestToken(), try source.newestToken())
        let isRestored =
            token.store != source.storeID || misled.contains(context.name)
            || token.number > max(newest.number, oldest.number)
        guard isRestored || token.number < oldest.number else { return nil }
        return Expiry(reason: isRestored ? .restored : .expired, lost: token, after: newest)
    }

    /// - Parameter expiry: What it is told before; nil where it is new, or filled by an operator's order.
    func refill(_ context: any HistoryContext, _ expiry: Expiry?) async throws -> Int64 {
        let filled = try await asking(context) { () -> HistoryToken? in
            if let expiry { try await context.expired(expiry) }
            if let plugin = context as? PluginMerger { return try await plugin.fill() }
            try await context.refill(from: StoreSnapshot(path: source.path))
            return try await context.checkpoint()
        }
        misled.remove(context.name)
        guard let token = filled, try self.expiry(of: token, context) == nil else {
            throw failure(of: context, "it has no checkpoint in this store after it was filled")
        }
        reporter.report(.replicaFilled(consumer: consumer.author, context: context.name, at: token))
        return token.number
    }

    func take(
        _ transactions: [HistoryTransaction], through end: Int64, _ context: any HistoryContext
    ) async throws {
        let token = HistoryToken(store: source.storeID, number: end)
        try await asking(context) { try await context.merge(transactions, through: token) }
        guard let last = transactions.last?.token else { return }
        reporter.report(
            .merged(
                consumer: consumer.author, context: context.name, transactions: transactions.count, last: last))
    }

    /// What is wrong then is wrong with the context, and not with the store.
    private func asking<T: Sendable>(
        _ context: any HistoryContext, _ body: () async throws -> T
    ) async throws -> T {
        do {
            return try await body()
        } catch {
            // The owner ends, which is no fault of the context.
            try Task.checkCancellation()
            throw failure(of: context, "\(error)")
        }
    }

    private func failure(of context: any HistoryContext, _ cause: String) -> HistoryError {
        HistoryError(
            .contextFailed, "The context \"\(context.name)\" failed: \(cause).", hint: "It is tried again.")
    }
}
