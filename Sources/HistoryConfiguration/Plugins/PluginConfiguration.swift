public import FoundationEssentials
public import PersistentHistory

/// An external program and the hooks that it serves.
public struct PluginConfiguration: Sendable, Hashable {
    public enum Mode: String, Sendable, CaseIterable {
        /// Started for each call.
        case oneshot
        /// Started once, kept, and started again when it dies.
        case coprocess
    }

    /// What `timeout` is where a manifest does not say: long enough for a script on a busy machine.
    public static let defaultTimeout = Duration.seconds(30)
    /// The most requests that a coprocess may have left unanswered, and how many it may where a
    /// manifest does not say.
    public static let largestWindow = 64

    /// Unique over all manifests.
    public var name: String
    /// The program, by its absolute path, and its arguments.
    public var command: [String]
    public var mode: Mode
    /// Added to the environment of the program.
    public var environment: [String: String]
    /// For one call; then the program's process group is killed.
    public var timeout: Duration
    /// Requests that may be unanswered at once, for a coprocess.
    public var window: Int
    public var policy: FailurePolicy
    /// In the manifest's order.
    public var hooks: [HookConfiguration]

    public init(
        name: String, command: [String], mode: Mode = .oneshot, environment: [String: String] = [:],
        timeout: Duration = Self.defaultTimeout, window: Int = Self.largestWindow,
        policy: FailurePolicy = FailurePolicy(), hooks: [HookConfiguration] = []
    ) {
        self.name = name
        self.command = command
        self.mode = mode
        self.environment = environment
        self.timeout = timeout
        self.window = window
        self.policy = policy
        self.hooks = hooks
    }
}

/// A hook as its manifest describes it.
public struct HookConfiguration: Sendable, Hashable, Identifiable {
    /// `plugin/hook`.
    public var fullName: String
    public var kind: Hook.Kind
    /// For an observer; nil is every entity.
    public var entity: String?
    /// For an observer.
    public var operations: Set<ChangeOperation>
    /// Nil is every store.
    public var store: String?
    /// Nil is every consumer.
    public var consumer: String?
    /// For a merge hook: the full name of the one that it stands in front of.
    public var before: String?

    public init(
        fullName: String, kind: Hook.Kind, entity: String? = nil,
        operations: Set<ChangeOperation> = Set(ChangeOperation.allCases),
        store: String? = nil, consumer: String? = nil, before: String? = nil
    ) {
        self.fullName = fullName
        self.kind = kind
        self.entity = entity
        self.operations = operations
        self.store = store
        self.consumer = consumer
        self.before = before
    }

    /// The same over restarts, since it is made of the name alone.
    public var id: UUID { HookID.make(fullName: fullName) }

    /// The hook, ready to be registered with what answers its calls.
    public func hook(calling endpoint: any HookEndpoint, policy: FailurePolicy) -> Hook {
        Hook(
            id: id, name: fullName, kind: kind, entity: entity, operations: operations, store: store,
            consumer: consumer, before: before, endpoint: endpoint, policy: policy)
    }
}
