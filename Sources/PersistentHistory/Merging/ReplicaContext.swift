/// A replica as it is configured: a SQLite file with copies of a consumer's entities, kept by the
/// default merge.
public struct ReplicaContext: Sendable, Hashable {
    /// The name, unique among the consumer's contexts.
    public let name: String
    /// The replica's file, which is created if it does not exist.
    public let path: String
    /// Nil is every tracked entity.
    public let entities: Set<String>?
    /// Nil leaves that to the process's umask(2) and the folder.
    public let access: ReplicaAccess?

    public init(name: String, path: String, entities: Set<String>?, access: ReplicaAccess? = nil) {
        self.name = name
        self.path = path
        self.entities = entities
        self.access = access
    }

    public var description: ContextDescription {
        ContextDescription(name: name, kind: "replica", path: path)
    }

    /// An index of the store that the replica can not have.
    public struct LeftOutIndex: Sendable, Equatable {
        public let name: String
        public let reason: String
    }
}
