public import FoundationEssentials

/// A registered hook: when it is called, and by what.
public struct Hook: Sendable, Identifiable {
    public enum Kind: String, Sendable, Hashable {
        /// Told of changes; can not alter what follows.
        case observer
        /// A stage of the merge pipeline.
        case merge
    }

    /// The same over restarts.
    public let id: UUID
    /// `plugin/hook`.
    public let name: String
    public let kind: Kind
    /// Nil is every entity.
    public let entity: String?
    public let operations: Set<ChangeOperation>
    /// Nil is every store.
    public let store: String?
    /// Nil is every consumer.
    public let consumer: String?
    /// For a merge hook: the full name of the one it stands in front of.
    public let before: String?
    public let endpoint: any HookEndpoint
    public let policy: FailurePolicy
    /// The endpoint, where it lives on the loop: asked once, for it is asked with each call.
    let loopEndpoint: (any LoopEndpoint)?

    public init(
        id: UUID, name: String, kind: Kind, entity: String? = nil,
        operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
        store: String? = nil, consumer: String? = nil, before: String? = nil,
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
        self.endpoint = endpoint
        self.policy = policy
        loopEndpoint = endpoint as? any LoopEndpoint
    }

    /// Whether an observer is called for changes of this kind.
    public func matches(entity name: String, operation: ChangeOperation) -> Bool {
        (entity == nil || entity == name) && operations.contains(operation)
    }

    /// Whether the hook serves this consumer of this store.
    public func serves(store: String, consumer: String) -> Bool {
        (self.store == nil || self.store == store) && (self.consumer == nil || self.consumer == consumer)
    }
}
