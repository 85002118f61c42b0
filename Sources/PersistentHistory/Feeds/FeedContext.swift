/// A feed as it is configured: a stream of object ids for one live program, which keeps its place while
/// the program is away.
package struct FeedContext: Sendable, Hashable {
    package let name: String
    /// Nil is every tracked entity.
    package let entities: Set<BinaryText>?
    /// How many transactions are sent ahead of the last that was acknowledged.
    package let window: Int
    /// The longest text or blob that is sent with changed objects; nil is no values at all.
    package let maximumValueBytes: Int?

    package init(
        name: String, entities: Set<BinaryText>? = nil, window: Int = 100, maximumValueBytes: Int? = nil
    ) {
        self.name = name
        self.entities = entities
        self.window = window
        self.maximumValueBytes = maximumValueBytes
    }

    package var description: ContextDescription { ContextDescription(name: name, kind: "feed", path: nil) }

    /// Whether a transaction has something for it.
    func wants(_ transaction: HistoryTransaction) -> Bool {
        guard let entities else { return true }
        return transaction.concerns(entities) || !entities.isDisjoint(with: transaction.recreated.asBinary)
    }
}

/// Which feed of a store is meant.
package struct FeedID: Sendable, Hashable, CustomStringConvertible {
    private let consumerName: BinaryText
    private let contextName: BinaryText
    package var consumer: String { consumerName.text }
    package var context: String { contextName.text }

    package init(consumer: String, context: String) {
        consumerName = BinaryText(consumer)
        contextName = BinaryText(context)
    }

    package var description: String { "\(consumer)/\(context)" }
}

/// A program that is connected to a feed, as the kernel names it.
package struct FeedClient: Sendable, Hashable {
    package let processID: Int32
    package let userID: UInt32

    package init(processID: Int32, userID: UInt32) {
        self.processID = processID
        self.userID = userID
    }
}

/// How far a feed's program has acknowledged.
package struct FeedState: Sendable, Equatable {
    package let checkpoint: Checkpoint
    /// What it has lost, until it acknowledges that it starts over.
    package let expiry: Expiry?

    package var position: Int64 { checkpoint.position }
}

extension FeedContext {
    /// Whether its lines have the values of rows.
    package var hasValues: Bool { maximumValueBytes != nil }
}
