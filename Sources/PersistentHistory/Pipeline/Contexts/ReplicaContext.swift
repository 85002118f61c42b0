internal import Glibc

/// The configuration of a replica: an SQLite file with copies of a consumer's entities, which the default
/// merge maintains.
public struct ReplicaContext: Sendable, Hashable, Codable {
    /// The name, unique among the consumer's contexts.
    public let name: String
    /// The replica's file, which is created if it does not exist.
    public let path: String
    /// The entities to copy; nil for every tracked entity.
    public let entities: Set<BinaryText>?
    /// The permissions of the file; if nil, the process's umask(2) and the folder decide.
    public let access: ReplicaAccess?

    /// A replica of some entities, or of all if `entities` is nil.
    public init(name: String, path: String, entities: Set<BinaryText>?, access: ReplicaAccess? = nil) {
        self.name = name
        self.path = path
        self.entities = entities
        self.access = access
    }

    package var description: ContextDescription {
        ContextDescription(name: name, kind: "replica", path: path)
    }

    /// A table or an index of the store that a replica cannot have.
    public struct LeftOut: Sendable, Equatable {
        /// What is left out.
        public enum Kind: String, Sendable {
            /// A table.
            case table
            /// An index.
            case index
        }

        /// Whether it is a table or an index.
        public let kind: Kind
        /// The table's or the index's name.
        public let name: String
        /// Why the replica cannot have it.
        public let reason: String
    }
}
