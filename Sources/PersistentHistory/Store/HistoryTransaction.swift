/// What happened to a row.
public enum ChangeOperation: String, Sendable, Hashable, CaseIterable {
    case insert, update, delete
}

/// The identity of a changed row: its primary key, or its rowid where it has none.
public struct ObjectID: Hashable, Sendable {
    /// The key's columns and values, in key order; one column named `rowid` where there is no key.
    public let columns: [String]
    public let values: [HistoryValue]
    /// Whether the row is known by its rowid.
    public let isRowID: Bool

    public init(columns: [String], values: [HistoryValue], isRowID: Bool = false) {
        self.columns = columns
        self.values = values
        self.isRowID = isRowID
    }
}

/// What is kept of a deleted row: the values of its entity's preserved columns.
public struct Tombstone: Hashable, Sendable {
    /// Columns and values with SQLite's types, in table order, nulls included.
    public let values: [(column: Entity.Column, value: HistoryValue)]
    public let deletedDate: HistoryTimestamp

    public init(values: [(column: Entity.Column, value: HistoryValue)], deletedDate: HistoryTimestamp) {
        self.values = values
        self.deletedDate = deletedDate
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.deletedDate == b.deletedDate && a.values.elementsEqual(b.values) { $0 == $1 }
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(deletedDate)
        for (column, value) in values {
            hasher.combine(column)
            hasher.combine(value)
        }
    }
}

/// One change of one row.
public struct HistoryChange: Hashable, Sendable {
    public let entity: Entity
    public let operation: ChangeOperation
    public let objectID: ObjectID
    /// For an update: the columns whose value changed, in table order. Otherwise empty.
    public let changedProperties: [String]
    /// For a delete of an entity that preserves columns. Otherwise nil.
    public let tombstone: Tombstone?

    public init(
        entity: Entity, operation: ChangeOperation, objectID: ObjectID,
        changedProperties: [String] = [], tombstone: Tombstone? = nil
    ) {
        self.entity = entity
        self.operation = operation
        self.objectID = objectID
        self.changedProperties = changedProperties
        self.tombstone = tombstone
    }
}

/// The changes that one SQL transaction made, with the author who made them.
public struct HistoryTransaction: Hashable, Sendable {
    public let token: HistoryToken
    /// Nil where the writer never declared itself.
    public let author: String?
    public let context: String?
    public let processID: Int32?
    public let timestamp: HistoryTimestamp
    public let changes: [HistoryChange]

    public init(
        token: HistoryToken, author: String?, context: String?, processID: Int32?,
        timestamp: HistoryTimestamp, changes: [HistoryChange]
    ) {
        self.token = token
        self.author = author
        self.context = context
        self.processID = processID
        self.timestamp = timestamp
        self.changes = changes
    }
}
