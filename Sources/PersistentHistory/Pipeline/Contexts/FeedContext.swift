/// The configuration of a feed: a stream of object ids for one running program, which keeps its position
/// while the program is away.
package struct FeedContext: Sendable, Hashable {
    package let name: String
    /// Which changes it receives.
    package let filter: ChangeFilter
    /// Nil means every tracked entity.
    package var entities: Set<BinaryText>? { filter.entities }
    /// How many transactions are sent beyond the last acknowledged one.
    package let window: Int
    /// The longest text or blob that is sent with changed objects; nil for no values.
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

    /// Whether a transaction has something for the feed. In case of doubt it does.
    ///
    /// - Parameter rows: The rows that were read with the changes. For a large transaction, the answer is
    ///   known only when it is read.
    func wants(_ transaction: HistoryTransaction, _ rows: RowValues? = nil) -> Bool {
        guard filter.mayConcern(transaction) else { return false }
        guard filter.looksAtChanges, transaction.outline == nil, transaction.recreated.isEmpty else {
            return true
        }
        return transaction.changes.contains { filter.verdict(on: $0, rows) != .unwanted }
    }
}

/// Identifies a feed of a store.
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

/// A program that is connected to a feed, as identified by the kernel.
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
    /// The history that it has lost, until it acknowledges that it starts over.
    package let expiry: Expiry?

    package var position: Int64 { checkpoint.position }
}

extension FeedContext {
    var wantedValues: WantedValues? {
        maximumValueBytes.map { WantedValues(entities: entities, maximumBytes: $0) }
    }

    /// The wanted values, including those that its condition needs.
    var wantedRows: WantedValues? {
        WantedValues.union([wantedValues, WantedValues(filter)].compactMap { $0 })
    }

    /// Whether its lines contain the values of rows.
    package var hasValues: Bool { maximumValueBytes != nil }
}
