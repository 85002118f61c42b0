public import PersistentHistory

/// What a feed hands over.
public enum FeedItem: Sendable, Hashable {
    /// Others have changed something. Acknowledge its token when you are done with it.
    case transaction(FeedTransaction)
    /// History was lost, and with it changes that you were not told of: read the store as it is, and then
    /// acknowledge `after`. Everything after that follows.
    case expired(FeedExpiry)

    /// What to acknowledge when you are done with it; nil where another part of its transaction follows.
    public var token: HistoryToken? {
        switch self {
        case .transaction(let transaction): transaction.isWhole ? transaction.token : nil
        case .expired(let expiry): expiry.after
        }
    }
}

/// A transaction by another author, with what it did to each object in the end.
public struct FeedTransaction: Sendable, Hashable {
    public let token: HistoryToken
    /// Nil where the writer did not declare itself.
    public let author: String?
    public let context: String?
    public let processID: Int32?
    /// ISO 8601 UTC with milliseconds.
    public let timestamp: String
    public let insertedObjectIDs: [FeedObjectID]
    public let updatedObjectIDs: [FeedObjectID]
    public let deletedObjectIDs: [FeedObjectID]
    /// Nil where the transaction came in one piece; one of more than 10,000 objects comes in several.
    public let part: Part?

    public struct Part: Sendable, Hashable, Decodable {
        public let index: Int
        public let isLast: Bool

        public init(index: Int, isLast: Bool) {
            self.index = index
            self.isLast = isLast
        }

        private enum CodingKeys: String, CodingKey {
            case index
            case isLast = "last"
        }
    }

    public init(
        token: HistoryToken, author: String?, context: String? = nil, processID: Int32? = nil,
        timestamp: String,
        insertedObjectIDs: [FeedObjectID] = [], updatedObjectIDs: [FeedObjectID] = [],
        deletedObjectIDs: [FeedObjectID] = [], part: Part? = nil
    ) {
        self.token = token
        self.author = author
        self.context = context
        self.processID = processID
        self.timestamp = timestamp
        self.insertedObjectIDs = insertedObjectIDs
        self.updatedObjectIDs = updatedObjectIDs
        self.deletedObjectIDs = deletedObjectIDs
        self.part = part
    }

    /// Whether with this all of the transaction has come.
    public var isWhole: Bool { part?.isLast ?? true }
}

/// The identity of a row.
public struct FeedObjectID: Sendable, Hashable {
    public let entityName: String
    /// The key's columns and values.
    public let objectID: [String: HistoryValue]
    /// `x-history://<store id>/<entity>/<key>`: `ObjectIDURL` reads it.
    public let objectIDURL: String

    public init(entityName: String, objectID: [String: HistoryValue], objectIDURL: String) {
        self.entityName = entityName
        self.objectID = objectID
        self.objectIDURL = objectIDURL
    }
}

/// Why a feed does not go on where it was.
public struct FeedExpiry: Sendable, Hashable {
    public enum Reason: String, Sendable, Hashable {
        /// The history was deleted.
        case expired
        /// The store was restored from a backup.
        case restored
        /// The feed is new, and history was deleted before it came.
        case late
        /// There is another store in the place of the one before.
        case replaced
    }

    public let reason: Reason
    /// The last token that was acknowledged, or handed over; nil for a feed that is new.
    public let lost: HistoryToken?
    public let after: HistoryToken

    public init(reason: Reason, lost: HistoryToken?, after: HistoryToken) {
        self.reason = reason
        self.lost = lost
        self.after = after
    }
}
