/// Merges into a context that a plugin keeps.
///
/// If the plugin saves its checkpoint together with its results, each change counts exactly once. If it
/// does not know `context.checkpoint`, the checkpoint is saved in the state after each call, so a call
/// may be repeated.
final class PluginMerger: MergeContext {
    let context: PluginContext
    var name: String { context.name }
    /// The key that distinguishes it in the state from a replica of the same name.
    var stateKey: String? { key }
    private var key: String { "plugin:\(context.plugin)" }
    private let consumer: Consumer
    private let reader: HistoryReader
    private let state: StateDatabase

    /// The process that reported the context's position. Another process does not have what this one had
    /// in memory.
    private(set) var process: Int?
    private var position: HistoryToken?
    private var leavesCheckpoint = false

    init(_ context: PluginContext, of consumer: Consumer, reader: HistoryReader, state: StateDatabase) {
        self.context = context
        self.consumer = consumer
        self.reader = reader
        self.state = state
    }

    // MARK: Checkpoint

    func open(isKnown: Bool) async throws -> HistoryToken? { try await checkpoint() }

    private func checkpoint() async throws -> HistoryToken? {
        let answer = try await call(.checkpoint)
        process = answer.process
        switch answer.result {
        case .checkpoint(let token): (leavesCheckpoint, position) = (false, token)
        default: (leavesCheckpoint, position) = (true, try saved())
        }
        return position
    }

    private func saved() throws -> HistoryToken? {
        let known = try state.replicas.known(name, of: consumer.author, at: key)
        guard known.isHere, let position = known.filling?.position else { return nil }
        return HistoryToken(store: reader.storeID, number: position)
    }

    private func save(_ token: HistoryToken, _ fingerprint: String?) throws {
        let checkpoint = Checkpoint(
            position: token.number, fingerprint: fingerprint, movedAt: state.clock.wall())
        try state.replicas.save(
            name, of: consumer.author, at: key, filling: checkpoint)
    }

    // MARK: Merging

    /// - Parameter transactions: A large one has an outline and is alone.
    func merge(
        _ transactions: [HistoryTransaction], through token: HistoryToken, _ fingerprint: String?
    ) async throws -> Int {
        guard let after = position else { throw HookFailure(.refused, "it has no checkpoint") }
        let wanted = transactions.compactMap(context.wanted)
        let parts = wanted.flatMap { UnreadChanges.parts(of: $0) }
        if parts.isEmpty { try await send(wanted, after: after, through: token, nil) }
        for unread in parts {
            let part = unread.transaction.with(context.wanted(try reader.changes(unread).changes))
            try await send([part], after: after, through: token, unread.part)
        }
        position = token
        if leavesCheckpoint { try save(token, fingerprint) }
        return transactions.count
    }

    private func send(
        _ transactions: [HistoryTransaction], after: HistoryToken, through token: HistoryToken,
        _ part: CallPart?
    ) async throws {
        // The checkpoint of a part is valid whenever it is saved.
        let through = part.map { $0.isLast ? token : after } ?? token
        let request = ContextCall.Request.merge(transactions, after: after, through: through, part: part)
        var answer = try await call(request, of: process)
        if answer.result == .notMade, part?.index ?? 0 == 0, try await checkpoint() == after {
            answer = try await call(request, of: process)
        }
        guard answer.result != .notMade else {
            throw HookFailure(
                .died,
                "Plugin \"\(context.plugin)\" was started again, and is not where its process before was.")
        }
    }

    func refill(_ expiry: Expiry?) async throws -> HistoryToken? {
        if let expiry { _ = try await call(.expired(expiry)) }
        // Whatever the plugin reads from now on is at least as new as this.
        let (token, tracked) = try reader.read { db in
            (try HistoryHeader(db).bounds.newest, try EntityCatalog(db).tracked.keys)
        }
        let entities = tracked.filter { context.entities?.contains($0) ?? true }.sorted().map(\.text)
        _ = try await call(.refill(entities: entities, through: token))
        let known = try await checkpoint()
        guard leavesCheckpoint || known == token else {
            throw HookFailure(
                .badAnswer,
                "Plugin \"\(context.plugin)\" was to fill it through \(token), and then answered to context.checkpoint: \(known.map { "\($0)" } ?? "null")."
            )
        }
        position = token
        return token
    }

    /// - Throws: `HookFailure`. (A typed error here crashes the optimizer of Swift 6.3 when it builds the
    ///   library without the daemon's flags.)
    private func call(_ request: ContextCall.Request, of process: Int? = nil) async throws -> ContextAnswer {
        let call = ContextCall(
            request, context: context, store: (consumer.store, reader.path), consumer: consumer.author)
        return try await context.endpoint.call(call, of: process)
    }
}
