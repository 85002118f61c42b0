package import FoundationEssentials
package import PersistentHistory

/// An external program and its hooks.
package struct PluginConfiguration: Sendable, Hashable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Started for each call.
        case oneshot
        /// Started once, kept, and restarted when it ends.
        case coprocess
    }

    /// The default of `timeout`: long enough for a script on a busy machine.
    package static let defaultTimeout = Duration.seconds(30)
    /// The maximum of unanswered requests to a coprocess, which is also the default.
    package static let largestWindow = 64

    /// Unique over all manifests.
    package var name: String
    /// The program, by its absolute path, and its arguments.
    package var command: [String]
    package var mode: Mode = .oneshot
    /// Added to the program's environment.
    package var environment: [String: String] = [:]
    /// Secret variables, with the names of their credentials.
    package var credentials: [String: String] = [:]
    /// The limit for one call; after it, the program's process group is killed.
    package var timeout = Self.defaultTimeout
    /// How many requests to a coprocess may be unanswered at once.
    package var window = Self.largestWindow
    /// How its calls represent integers that are not exact as doubles.
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
    /// For an observer; nil for every entity.
    package var entity: String?
    /// For an observer.
    package var operations: Set<ChangeOperation> = Set(ChangeOperation.allCases)
    /// Nil for every store.
    package var store: String?
    /// Nil for every consumer.
    package var consumer: String?
    /// For a merge hook: the full name of the hook before which it is called.
    package var before: String?
    /// For an observer.
    package var calls = ObserverCalls.transaction
    /// For an observer of one entity: the columns of which an update must change at least one; nil for any.
    package var properties: [String]?
    /// For an observer of one entity: an SQL expression over the columns of a row.
    package var condition: String?
    /// The longest text or blob that it receives with changed objects; nil for no values at all.
    package var maximumValueBytes: Int?

    /// Stays the same over restarts, because it depends on the name alone.
    package var id: UUID { HookID.make(fullName: fullName) }

    /// The hook, ready to be registered, with the endpoint that answers its calls.
    package func hook(calling endpoint: any HookEndpoint, policy: FailurePolicy) -> Hook {
        Hook(
            id: id, name: fullName, kind: kind, entity: entity, operations: operations, calls: calls,
            properties: properties, condition: condition, store: store, consumer: consumer, before: before,
            maximumValueBytes: maximumValueBytes, endpoint: endpoint,
            policy: policy)
    }
}

extension PluginConfiguration {
    /// Why a manifest is not JSON; nil if it is.
    package static func damage(of manifest: [UInt8]) -> String? {
        let document = JSONReader.read(manifest)
        return document.root == nil ? document.problems.first?.message ?? "it is empty" : nil
    }
}
