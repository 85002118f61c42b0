package import FoundationEssentials

/// A registered hook: when it is called, and by what.
///
/// It never changes, and is handed from part to part with each call: so it is one object.
package final class Hook: Sendable, Identifiable {
    package enum Kind: String, Sendable, Hashable {
        /// Notified of changes; cannot alter what follows.
        case observer
        /// A stage of the merge pipeline.
        case merge
    }

    /// The same over restarts.
    package let id: UUID
    /// `plugin/hook`.
    package let name: String
    package let kind: Kind
    /// Nil is every entity.
    package let entity: String?
    package let operations: Set<ChangeOperation>
    /// Nil is every store.
    package let store: String?
    /// Nil is every consumer.
    package let consumer: String?
    /// For a merge hook: the full name of the one before which it is called.
    package let before: String?
    /// The rows that it gets with changed objects; nil is none. Those of deleted objects are gone.
    let wantedValues: WantedValues?
    package let endpoint: any HookEndpoint
    package let policy: FailurePolicy
    /// The endpoint, where it lives on the loop: asked once, for it is asked with each call.
    let loopEndpoint: (any LoopEndpoint)?
    /// The operations, by their places among all.
    private let operationBits: Int

    /// - Parameter maximumValueBytes: The longest text or blob that it gets with changed objects; nil is no values.
    package init(
        id: UUID, name: String, kind: Kind, entity: String? = nil,
        operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
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
        let getsRows = kind == .merge || operations != [.delete]
        wantedValues = maximumValueBytes.flatMap { most in
            getsRows ? WantedValues(entities: entity.map { [BinaryText($0)] }, maximumBytes: most) : nil
        }
        self.endpoint = endpoint
        self.policy = policy
        loopEndpoint = endpoint as? any LoopEndpoint
        operationBits = operations.reduce(0) { $0 | $1.bit }
    }

    /// Whether an observer is called for changes of this kind.
    package func matches(entity name: String, operation: ChangeOperation) -> Bool {
        (entity?.hasSameBytes(as: name) ?? true) && operationBits & operation.bit != 0
    }

    /// Whether the hook serves this consumer of this store.
    package func serves(store: String, consumer: String) -> Bool {
        (self.store?.hasSameBytes(as: store) ?? true) && (self.consumer?.hasSameBytes(as: consumer) ?? true)
    }
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
