/// A feed as it is configured: a stream of object ids for one live program, which keeps its place while
/// the program is away.
public struct FeedContext: Sendable, Hashable {
    public let name: String
    /// Nil is every tracked entity.
    public let entities: Set<String>?
    /// How many transactions are sent ahead of the last that was acknowledged.
    public let window: Int

    public init(name: String, entities: Set<String>? = nil, window: Int = 100) {
        self.name = name
        self.entities = entities
        self.window = window
    }

    public var description: ContextDescription { ContextDescription(name: name, kind: "feed", path: nil) }

    /// Whether a transaction has something for it.
    func wants(_ transaction: HistoryTransaction) -> Bool {
        guard let entities else { return true }
        return transaction.changes.contains { entities.contains($0.entity.name) }
    }
}

/// Which feed of a store is meant.
public struct FeedID: Sendable, Hashable, CustomStringConvertible {
    public let consumer: String
    public let context: String

    public init(consumer: String, context: String) {
        self.consumer = consumer
        self.context = context
    }

    public var description: String { "\(consumer)/\(context)" }
}

/// A program that is connected to a feed, as the kernel names it.
public struct FeedClient: Sendable, Hashable {
    public let processID: Int32
    public let userID: UInt32

    public init(processID: Int32, userID: UInt32) {
        self.processID = processID
        self.userID = userID
    }
}

/// How far a feed's program has acknowledged.
public struct FeedState: Sendable, Equatable {
    public let checkpoint: Checkpoint
    /// What it has lost, until it acknowledges that it starts over.
    public let expiry: Expiry?

    public var position: Int64 { checkpoint.position }
}
