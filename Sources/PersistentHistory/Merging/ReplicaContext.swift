/// A replica as it is configured: a SQLite file with copies of a consumer's entities, kept by the
/// default merge.
public struct ReplicaContext: Sendable, Hashable {
    /// The name, unique among the consumer's contexts.
    public let name: String
    /// The replica's file, which is created if it does not exist.
    public let path: String
    /// Nil is every tracked entity.
    public let entities: Set<String>?

    public init(name: String, path: String, entities: Set<String>?) {
        self.name = name
        self.path = path
        self.entities = entities
    }

    public var description: ContextDescription {
        ContextDescription(name: name, kind: "replica", path: path)
    }

    /// A table or an index of the store that a replica cannot have.
    public struct LeftOut: Sendable, Equatable {
        public enum Kind: String, Sendable { case table, index }

        public let kind: Kind
        public let name: String
        public let reason: String
    }
}
