public import HistoryBase

/// An item that a feed delivers.
public enum FeedItem: Sendable, Hashable {
    /// Another author changed something. Acknowledge the token when the program has processed it.
    case transaction(FeedTransaction)
    /// History was lost, and with it changes that the program did not receive. Read the store's current rows, then
    /// acknowledge. All later transactions follow.
    case expired(Expiry)

    /// The token to acknowledge when the program has processed the item; nil if another part of its transaction
    /// follows.
    public var token: HistoryToken? {
        switch self {
        case .transaction(let transaction): transaction.isWhole ? transaction.token : nil
        case .expired(let expiry): expiry.after
        }
    }
}

/// A transaction by another author. Each object is in the list of its final result.
public struct FeedTransaction: Sendable, Hashable {
    /// Identifies the transaction.
    public let token: HistoryToken
    /// Nil if the writer declared no author.
    public let author: String?
    /// The part of the writer that made the change, as the writer declared it.
    public let context: String?
    /// The writer's process; nil if it declared no author.
    public let processID: Int32?
    /// The writer's process and app by their names, in a store that Core Data or SwiftData writes.
    public let application: Application?
    /// ISO 8601 UTC with milliseconds.
    public let timestamp: String
    /// New rows.
    public let insertedObjectIDs: [FeedObjectID]
    /// Rows that existed before and have changed.
    public let updatedObjectIDs: [FeedObjectID]
    /// Deleted rows.
    public let deletedObjectIDs: [FeedObjectID]
    /// The rows of the inserted and updated objects, as of `valuesAt`, if the feed is configured with
    /// `"values": true`. A row that was deleted by then is left out.
    public let values: [FeedObjectID: FeedRow]
    /// The end of the history when `values` were read; nil if the feed has none.
    public let valuesAt: HistoryToken?
    /// Nil if the item is the whole transaction; a transaction of more than 10,000 objects comes in parts.
    public let part: Part?

    /// Which part of a large transaction an item is.
    public struct Part: Sendable, Hashable, Decodable {
        /// Counted from 0.
        public let index: Int
        /// Whether this part completes the transaction.
        public let isLast: Bool

        /// A part, for tests and previews.
        public init(index: Int, isLast: Bool) {
            self.index = index
            self.isLast = isLast
        }

        private enum CodingKeys: String, CodingKey {
            case index
            case isLast = "last"
        }
    }

    /// A transaction, for tests and previews.
    public init(
        token: HistoryToken, author: String?, context: String? = nil, processID: Int32? = nil,
        application: Application? = nil, timestamp: String,
        insertedObjectIDs: [FeedObjectID] = [], updatedObjectIDs: [FeedObjectID] = [],
        deletedObjectIDs: [FeedObjectID] = [], values: [FeedObjectID: FeedRow] = [:],
        valuesAt: HistoryToken? = nil, part: Part? = nil
    ) {
        self.token = token
        self.author = author
        self.context = context
        self.processID = processID
        self.application = application
        self.timestamp = timestamp
        self.insertedObjectIDs = insertedObjectIDs
        self.updatedObjectIDs = updatedObjectIDs
        self.deletedObjectIDs = deletedObjectIDs
        self.values = values
        self.valuesAt = valuesAt
        self.part = part
    }

    /// Whether this item completes the transaction.
    public var isWhole: Bool { part?.isLast ?? true }
}

/// The identity of a row.
public struct FeedObjectID: Sendable, Hashable {
    /// The table.
    public let entityName: String
    /// The key's columns and values.
    public let objectID: [BinaryText: HistoryValue]
    /// `x-history://<store id>/<entity>/<key>`: `ObjectIDURL` reads it.
    public let objectIDURL: String

    /// An identity, for tests and previews.
    public init(entityName: String, objectID: [BinaryText: HistoryValue], objectIDURL: String) {
        self.entityName = entityName
        self.objectID = objectID
        self.objectIDURL = objectIDURL
    }
}

/// A row as of a position in the history.
public struct FeedRow: Sendable, Hashable {
    /// The values by column, with SQLite's types. Generated columns are left out.
    public let values: [BinaryText: HistoryValue]
    /// The columns whose text or blob was cut, with the full sizes in bytes: see `maximumValueBytes`.
    public let cutValues: [BinaryText: Int]

    /// A row, for tests and previews.
    public init(values: [BinaryText: HistoryValue], cutValues: [BinaryText: Int] = [:]) {
        self.values = values
        self.cutValues = cutValues
    }
}
