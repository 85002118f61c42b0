/// A feed as it is configured: a stream of object ids for one live program, which keeps its place while
/// the program is away.
package struct FeedContext: Sendable, Hashable {
    package let name: String
    /// Which changes it gets.
    package let filter: ChangeFilter
    /// Nil is every tracked entity.
    package var entities: Set<BinaryText>? { filter.entities }
    /// How many transactions are sent ahead of the last that was acknowledged.
    package let window: Int
    /// The longest text or blob that is sent with changed objects; nil is no values at all.
    package let maximumValueBytes: Int?
    package let largeIntegers: LargeIntegers

    package init(
        name: String, entities: Set<BinaryText>? = nil, window: Int = 100, maximumValueBytes: Int? = nil,
        largeIntegers: LargeIntegers = .number
    ) {
        self.init(
            name: name, filter: ChangeFilter(entities: entities), window: window,
            maximumValueBytes: maximumValueBytes, largeIntegers: largeIntegers)
    }

    package init(
        name: String, filter: ChangeFilter, window: Int = 100, maximumValueBytes: Int? = nil,
        largeIntegers: LargeIntegers = .number
    ) {
        self.name = name
        self.filter = filter
        self.window = window
        self.maximumValueBytes = maximumValueBytes
        self.largeIntegers = largeIntegers
    }

    package var description: ContextDescription { ContextDescription(name: name, kind: "feed", path: nil) }

    /// Whether a transaction has something for it. What cannot be decided is.
    ///
    /// - Parameter rows: What was read with the changes. What of a large transaction is for it is known only when it
    ///   is read.
    func wants(_ transaction: HistoryTransaction, _ rows: RowValues? = nil) -> Bool {
        guard filter.mayConcern(transaction) else { return false }
        guard filter.looksAtChanges, transaction.outline == nil, transaction.recreated.isEmpty else {
            return true
        }
        return transaction.changes.contains { filter.verdict(on: $0, rows) != .unwanted }
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
    var wantedValues: WantedValues? {
        maximumValueBytes.map { WantedValues(entities: entities, maximumBytes: $0) }
    }

    /// The same with what is asked of rows on its behalf.
    var wantedRows: WantedValues? {
        WantedValues.union([wantedValues, WantedValues(filter)].compactMap { $0 })
    }

    /// Whether its lines have the values of rows.
    package var hasValues: Bool { maximumValueBytes != nil }
}
