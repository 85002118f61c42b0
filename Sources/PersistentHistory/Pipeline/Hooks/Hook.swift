package import FoundationEssentials

/// A registered hook: when it is called, and its endpoint.
///
/// It is an immutable object, because it is passed on with each call.
package final class Hook: Sendable, Identifiable {
    package enum Kind: String, Sendable, Hashable {
        /// Is notified of changes, and cannot alter what follows.
        case observer
        /// A stage of the merge pipeline.
        case merge
    }

    /// The same after restarts.
    package let id: UUID
    /// `plugin/hook`.
    package let name: String
    package let kind: Kind
    /// Nil means every entity.
    package let entity: String?
    package let operations: Set<ChangeOperation>
    /// Nil means every store.
    package let store: String?
    /// Nil means every consumer.
    package let consumer: String?
    /// For a merge hook: the full name of the hook before which it is called.
    package let before: String?
    /// What an observer is called for.
    package let calls: ObserverCalls
    /// Which changes an observer is called for. A merge hook receives all.
    package let filter: ChangeFilter
    /// As the filter says; each call asks for it.
    let looksAtChanges: Bool
    /// The rows that it receives with changed objects; nil for none. Deleted objects have no rows.
    let wantedValues: WantedValues?
    /// The longest text or blob of these rows; nil for none.
    let maximumValueBytes: Int?
    /// The wanted values, including those that its condition needs.
    let wantedRows: WantedValues?
    package let endpoint: any HookEndpoint
    package let policy: FailurePolicy
    /// The endpoint if it is on the loop. Determined once, because each call needs it.
    let loopEndpoint: (any LoopEndpoint)?
    /// The operations as bits, by their index among all.
    private let operationBits: Int

    /// - Parameters:
    ///   - calls: For an observer: what it is called for.
    ///   - properties: For an observer of one entity: only updates that changed one of these columns.
    ///   - condition: For an observer of one entity: only rows for which this expression is true.
    ///   - maximumValueBytes: The longest text or blob that it receives with changed objects; nil for no
    ///     values.
    package init(
        id: UUID, name: String, kind: Kind, entity: String? = nil,
        operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
        calls: ObserverCalls = .transaction, properties: [String]? = nil, condition: String? = nil,
        store: String? = nil, consumer: String? = nil, before: String? = nil, maximumValueBytes: Int? = nil,
        endpoint: any HookEndpoint, policy: FailurePolicy = FailurePolicy()
    ) {
        self.id = id
        self.name = name
        self.kind = kind
        self.entity = entity
        self.operations = operations
        self.store = store
        self.consumer = consumer
        self.before = before
        self.calls = calls
        filter = ChangeFilter(
            entity: entity, operations: operations, properties: properties, condition: condition)
        looksAtChanges = filter.looksAtChanges
        let getsRows = kind == .merge || operations != [.delete]
        wantedValues = maximumValueBytes.flatMap { most in
            getsRows ? WantedValues(entities: entity.map { [BinaryText($0)] }, maximumBytes: most) : nil
        }
        self.maximumValueBytes = wantedValues?.maximumBytes
        wantedRows = WantedValues.union([wantedValues, WantedValues(filter)].compactMap { $0 })
        self.endpoint = endpoint
        self.policy = policy
        loopEndpoint = endpoint as? any LoopEndpoint
        operationBits = operations.reduce(0) { $0 | $1.bit }
    }

    /// Whether an observer is called for changes of this kind.
    package func matches(entity name: String, operation: ChangeOperation) -> Bool {
        (entity?.hasSameBytes(as: name) ?? true) && operationBits & operation.bit != 0
    }

    /// Whether a transaction has something for it. For a large transaction, that is known only when it is
    /// read.
    ///
    /// - Parameter rows: The rows that were read with the changes.
    func concerns(_ transaction: HistoryTransaction, _ rows: RowValues?) -> Bool {
        if let outline = transaction.outline {
            return outline.groups.contains { matches(entity: $0.entity.name, operation: $0.operation) }
        }
        return transaction.changes.contains { change in
            matches(entity: change.entity.name, operation: change.operation)
                && (!looksAtChanges || filter.verdict(on: change, rows) != .unwanted)
        }
    }

    /// Whether the hook serves this consumer of this store.
    package func serves(store: String, consumer: String) -> Bool {
        (self.store.map { NamePattern.matches($0, store) } ?? true)
            && (self.consumer?.hasSameBytes(as: consumer) ?? true)
    }
}

/// What an observer is called for.
public enum ObserverCalls: String, Sendable, Hashable, Codable, CaseIterable {
    /// Each transaction's changes of one entity and operation.
    case transaction
    /// Everything in a fetched batch that concerns it, at once.
    case batch
}

extension ChangeOperation {
    fileprivate var bit: Int {
        switch self {
        case .insert: 1
        case .update: 2
        case .delete: 4
        }
    }
}

/// What happens when a hook fails: how many retries, at which intervals, and what then.
public struct FailurePolicy: Sendable, Hashable, Codable {
    /// The action when every attempt has failed.
    public enum AfterLastAttempt: String, Sendable, Codable {
        /// The consumer waits, and the call is retried at the longest delay.
        case hold
        /// The call is kept as a dead letter, and the consumer continues.
        case skip
    }

    /// The number of attempts, including the first, before `afterLastAttempt` applies.
    public let attempts: Int
    /// The delay before the second attempt; it doubles with each attempt.
    public let initialDelay: Duration
    /// The longest delay.
    public let maximumDelay: Duration
    /// The action when every attempt has failed.
    public let afterLastAttempt: AfterLastAttempt

    /// The number of attempts, the delays between them, and what follows.
    public init(
        attempts: Int = 5, initialDelay: Duration = .milliseconds(100),
        maximumDelay: Duration = .seconds(30), afterLastAttempt: AfterLastAttempt = .hold
    ) {
        self.attempts = max(1, attempts)
        self.initialDelay = initialDelay
        self.maximumDelay = max(initialDelay, maximumDelay)
        self.afterLastAttempt = afterLastAttempt
    }

    package enum Decision: Sendable, Hashable {
        case retry(after: Duration)
        /// The last attempt has failed, and the consumer waits. This is reported once.
        case hold(retryAfter: Duration)
        case skip
    }

    /// What follows the `failed`th failed attempt (counted from 1): the delay doubles each time.
    package func decision(afterFailedAttempt failed: Int) -> Decision {
        if failed >= attempts {
            return afterLastAttempt == .skip ? .skip : .hold(retryAfter: maximumDelay)
        }
        let doublings = min(failed - 1, 40)
        let delay = initialDelay * (1 << doublings)
        return .retry(after: min(delay, maximumDelay))
    }
}
