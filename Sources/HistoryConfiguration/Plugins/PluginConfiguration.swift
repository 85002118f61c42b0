package import FoundationEssentials
package import PersistentHistory

/// An external program and the hooks that it serves.
package struct PluginConfiguration: Sendable, Hashable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Started for each call.
        case oneshot
        /// Started once, kept, and started again when it dies.
        case coprocess
    }

    /// What `timeout` is where a manifest does not say: long enough for a script on a busy machine.
    package static let defaultTimeout = Duration.seconds(30)
    /// The most requests that a coprocess may have left unanswered, and how many it may where a
    /// manifest does not say.
    package static let largestWindow = 64

    /// Unique over all manifests.
    package var name: String
    /// The program, by its absolute path, and its arguments.
    package var command: [String]
    package var mode: Mode = .oneshot
    /// Added to the environment of the program.
    package var environment: [String: String] = [:]
    /// Variables whose values are secrets, with the names of the credentials.
    package var credentials: [String: String] = [:]
    /// For one call; then the program's process group is killed.
    package var timeout = Self.defaultTimeout
    /// Requests that may be unanswered at once, for a coprocess.
    package var window = Self.largestWindow
    /// How its calls give integers that are not exact as doubles.
    package var largeIntegers = LargeIntegers.number
    package var policy = FailurePolicy()
    /// In the manifest's order.
    package var hooks: [HookConfiguration] = []
}

/// A hook as its manifest describes it.
package struct HookConfiguration: Sendable, Hashable, Identifiable {
    /// `plugin/hook`.
    package var fullName: String
    package var kind: Hook.Kind
    /// For an observer; nil is every entity.
    package var entity: String?
    /// For an observer.
    package var operations: Set<ChangeOperation> = Set(ChangeOperation.allCases)
    /// Nil is every store.
    package var store: String?
    /// Nil is every consumer.
    package var consumer: String?
    /// For a merge hook: the full name of the one before which it is called.
    package var before: String?
    /// For an observer.
    package var calls = ObserverCalls.transaction
    /// For an observer of one entity: the columns of which an update must have changed one; nil is any.
    package var properties: [String]?
    /// For an observer of one entity: an SQL expression over the columns of a row.
    package var condition: String?
    /// The longest text or blob that it gets with changed objects; nil is no values at all.
    package var maximumValueBytes: Int?

    /// The same over restarts, since it is made of the name alone.
    package var id: UUID { HookID.make(fullName: fullName) }

    /// The hook, ready to be registered with what answers its calls.
    package func hook(calling endpoint: any HookEndpoint, policy: FailurePolicy) -> Hook {
        Hook(
            id: id, name: fullName, kind: kind, entity: entity, operations: operations, calls: calls,
            properties: properties, condition: condition, store: store, consumer: consumer, before: before,
            maximumValueBytes: maximumValueBytes, endpoint: endpoint,
            policy: policy)
    }
}

extension PluginConfiguration {
    /// What is wrong with a manifest that is no JSON; nil where it is.
    package static func damage(of manifest: [UInt8]) -> String? {
        let document = JSONReader.read(manifest)
        return document.root == nil ? document.problems.first?.message ?? "it is empty" : nil
    }
}
