public import FoundationEssentials

final class ClosureHook: HookEndpoint {
    enum Callback: Sendable {
        case observer(HookCallback)
        case merge(MergeHookCallback, contexts: [any HistoryContext])
    }

    private let callback: Callback
    private let onExpired: ExpiryCallback?
    private let timeout: Duration?
    private let reporter: any PipelineReporter

    init(
        _ callback: Callback, onExpired: ExpiryCallback?, timeout: Duration?, reporter: any PipelineReporter
    ) {
        self.callback = callback
        self.onExpired = onExpired
        self.timeout = timeout
        self.reporter = reporter
    }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        guard case .observer(let callback) = callback else { return ObserverOutcome(succeeded: calls.count) }
        for (index, call) in calls.enumerated() {
            guard !Task.isCancelled else { return ObserverOutcome(succeeded: index) }
            do throws(HookFailure) {
                try await attempt(call.header) {
                    try await callback(call.changes.map { HookContext($0, of: call.transaction) })
                }
            } catch {
                return ObserverOutcome(succeeded: index, failure: error.reason == .cancelled ? nil : error)
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    /// A closure receives whole transactions: one that merges them itself could lose a part.
    var takesParts: Bool { false }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        if case .observer(let callback) = callback, let groups = call.groups {
            try await attempt(call.header) {
                try await callback(
                    groups.flatMap { group in group.changes.map { HookContext($0, of: group.transaction) } })
            }
            return .goOn
        }
        guard case .merge(let callback, let contexts) = callback else { return .goOn }
        return try await attempt(call.header) {
            try await callback(MergeHookInput(transactions: call.transactions, contexts: contexts))
        }
    }

    /// A loss is reported if there is no closure for it.
    func expired(_ call: ExpiredCall) async throws(HookFailure) {
        let expiry = call.expiry
        guard let onExpired else {
            return reporter.report(
                .lossUnheard(consumer: call.header.consumer, hook: call.header.hook, expiry))
        }
        try await attempt(call.header) { try await onExpired(expiry) }
    }

    /// Calls a closure. One that takes too long is cancelled and then awaited, because a task cannot be
    /// abandoned.
    private func attempt<T: Sendable>(
        _ header: HookCallHeader, _ body: @escaping @Sendable () async throws -> T
    ) async throws(HookFailure) -> T {
        do {
            if let result = try await within(timeout, { try await body() }) { return result }
        } catch {
            // What a closure throws while the tracker stops is not its own failure.
            throw HookFailure(
                Task.isCancelled ? .cancelled : .refused, "Hook \"\(header.hook)\" threw an error: \(error)",
                advice: (error as? HookFailure)?.advice)
        }
        throw HookFailure(.timedOut, "Hook \"\(header.hook)\" did not return within \(timeout ?? .zero).")
    }
}

/// What happened to a row; the kit's name for it.
public typealias HookOperation = ChangeOperation

/// One change, as an observer's closure receives it. It does not depend on a connection.
public struct HookContext: Sendable, Hashable {
    private let change: HistoryChange
    /// The transaction's position in the history.
    public let token: HistoryToken
    /// When the transaction was made.
    public let timestamp: Date
    /// Nil if the writer declared no author.
    public let author: String?

    init(_ change: HistoryChange, of transaction: HistoryTransaction) {
        self.change = change
        token = transaction.token
        timestamp = transaction.timestamp.date
        author = transaction.author
    }

    /// The table that the row is in.
    public var entityName: String { change.entity.name }
    /// What happened to the row.
    public var operation: HookOperation { change.operation }
    /// The row's primary key.
    public var objectID: ObjectID { change.objectID }
    /// For an update: the columns whose value changed, in table order.
    public var changedProperties: [String] { change.changedProperties }
    /// For a delete of an entity that preserves columns.
    public var tombstone: Tombstone? { change.tombstone }

    /// `x-history://<store id>/<entity>/p42`, an address of the row that is unique among stores.
    public var objectIDURL: URL {
        let text = HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: token.store)
        guard let url = URL(string: text) else {
            preconditionFailure("\(text) has only characters that are allowed in a URL.")
        }
        return url
    }
}

/// A fetched batch, as a merge hook's closure receives it.
public struct MergeHookInput: Sendable {
    /// In commit order, without those that an earlier hook rejected.
    public let transactions: [HistoryTransaction]
    /// The contexts that the default merge merges into.
    public let contexts: [any HistoryContext]
}

/// A merge hook's answer: `.goOn`, `.finish`, `.rejecting(tokens)`.
public typealias MergeHookResult = MergeResult

/// Called once for each transaction, entity and operation, with all its changes (a group of more than
/// 10,000 comes in parts). If it throws, the call has failed and is repeated as the policy says, or as
/// the error says if it is ``HookFailure/retryAfter(_:_:)`` or ``HookFailure/permanent(_:)``.
public typealias HookCallback = @Sendable ([HookContext]) async throws -> Void

/// Called once for each fetched batch. If it throws, the call has failed and is repeated.
public typealias MergeHookCallback = @Sendable (MergeHookInput) async throws -> MergeHookResult

/// Called once if a consumer has lost history, before any other call. If it throws, the call has failed
/// and is repeated.
public typealias ExpiryCallback = @Sendable (Expiry) async throws -> Void
