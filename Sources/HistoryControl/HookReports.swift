package struct HookReport: Codable, Sendable, Hashable {
    package enum Origin: String, Codable, Sendable {
        case manifest
        /// Added to the running daemon: gone when it ends.
        case added
        /// Added to the running daemon, and kept.
        case persisted
    }

    /// The position in the order of its kind, from 1.
    package var position: Int
    package var id: String
    package var name: String
    package var kind: String
    /// For an observer; `*` stands for every entity.
    package var entity: String?
    /// For an observer.
    package var operations: [String]?
    /// Absent for every store, every consumer.
    package var store: String?
    package var consumer: String?
    package var before: String?
    /// Whether an observer is called once for each batch.
    package var batch: Bool?
    /// For an observer that filters by them.
    package var properties: [String]?
    package var `where`: String?
    package var origin: Origin
    /// Successful calls and failed attempts since the daemon started, or since the hook was added.
    package var calls: Int
    package var failures: Int
    package var lastCallAt: String?
    package var lastError: String?
    package var lastErrorAt: String?

    package init(
        position: Int, id: String, name: String, kind: String, origin: Origin, calls: Int, failures: Int
    ) {
        self.position = position
        self.id = id
        self.name = name
        self.kind = kind
        self.origin = origin
        self.calls = calls
        self.failures = failures
    }
}

package struct HookList: Codable, Sendable, Hashable {
    package var hooks: [HookReport]

    package init(hooks: [HookReport]) { self.hooks = hooks }
}

/// Hooks that were added or removed.
package struct HookChange: Codable, Sendable, Hashable {
    package var added: [HookName]?
    package var removed: [HookName]?

    package init(added: [HookName]? = nil, removed: [HookName]? = nil) {
        self.added = added
        self.removed = removed
    }
}

package struct HookName: Codable, Sendable, Hashable {
    package var id: String
    package var name: String
    package var kind: String

    package init(id: String, name: String, kind: String) {
        self.id = id
        self.name = name
        self.kind = kind
    }
}
