/// What happened to a row.
public enum ChangeOperation: String, Sendable, Hashable, CaseIterable {
    /// The row is new.
    case insert
    /// The row existed with the same primary key, and at least one column has changed.
    case update
    /// The row is gone.
    case delete
}

/// The identity of a changed row: its primary key, or its rowid if it has none.
public struct ObjectID: Sendable {
    /// Most keys are a single value, which needs no separate allocation.
    @usableFromInline enum Key: Hashable, Sendable {
        case one(HistoryValue)
        case some([HistoryValue])
    }

    /// The key's columns in key order; one column named `rowid` if there is no key.
    public let columns: [String]
    @usableFromInline let key: Key
    /// Whether the rowid identifies the row.
    public let isRowID: Bool

    /// The columns' values.
    @inlinable public var values: [HistoryValue] {
        switch key {
        case .one(let value): [value]
        case .some(let values): values
        }
    }

    /// A row's identity: the columns of its primary key and their values.
    @inlinable package init(columns: [String], values: [HistoryValue], isRowID: Bool = false) {
        self.columns = columns
        key = values.count == 1 ? .one(values[0]) : .some(values)
        self.isRowID = isRowID
    }

    /// The identity of a row with a key of one column.
    @inlinable package init(columns: [String], value: HistoryValue, isRowID: Bool = false) {
        self.columns = columns
        key = .one(value)
        self.isRowID = isRowID
    }

    /// The value of a key with one column.
    @inlinable package var onlyValue: HistoryValue? { if case .one(let value) = key { value } else { nil } }

    /// The length of its texts and blobs.
    @inlinable package var byteCount: Int {
        switch key {
        case .one(let value): value.byteCount
        case .some(let values): values.reduce(0) { $0 + $1.byteCount }
        }
    }
}

extension ObjectID: Hashable {
    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.isRowID == b.isRowID && a.key == b.key && a.columns.haveSameBytes(as: b.columns)
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(key)
        hasher.combine(isRowID)
    }
}

/// The values of a deleted row in its entity's preserved columns.
public struct Tombstone: Hashable, Sendable {
    /// Columns and values with SQLite's types, in table order, including nulls.
    public let values: [(column: Entity.Column, value: HistoryValue)]
    /// When the row was deleted.
    public let deletedDate: HistoryTimestamp

    package init(values: [(column: Entity.Column, value: HistoryValue)], deletedDate: HistoryTimestamp) {
        self.values = values
        self.deletedDate = deletedDate
    }

    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.deletedDate == b.deletedDate && a.values.elementsEqual(b.values) { $0 == $1 }
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(deletedDate)
        for (column, value) in values {
            hasher.combine(column)
            hasher.combine(value)
        }
    }
}

/// One change of one row.
public struct HistoryChange: Sendable {
    /// The table, as it was when the change was recorded.
    public let entity: Entity
    /// What happened to the row.
    public let operation: ChangeOperation
    /// The row's primary key.
    public let objectID: ObjectID
    /// For an update: the columns whose value changed, in table order. Otherwise empty. In a Core Data
    /// store: the names of the model's properties that are known, in byte order.
    public let changedProperties: [String]
    /// Nil if `changedProperties` is complete. Otherwise what else changed in a Core Data store, if
    /// known: `toMany#0` is a to-many relationship without a certain name. Empty if nothing is known.
    public let unnamedProperties: [String]?
    /// Set for a delete of an entity that preserves columns. Otherwise nil.
    public let tombstone: Tombstone?
    /// The value of an attribute that describes the object, if requested for display.
    @usableFromInline package var label: String?
    /// The object's values before and after the change, if requested for display.
    @usableFromInline package var values: ChangeValues?

    @inlinable package init(
        entity: Entity, operation: ChangeOperation, objectID: ObjectID,
        changedProperties: [String] = [], unnamedProperties: [String]? = nil, tombstone: Tombstone? = nil
    ) {
        self.entity = entity
        self.operation = operation
        self.objectID = objectID
        self.changedProperties = changedProperties
        self.unnamedProperties = unnamedProperties
        self.tombstone = tombstone
    }
}

extension HistoryChange {
    package var shownLabel: String? { label }

    package func labelled(_ label: String?) -> HistoryChange {
        var change = self
        change.label = label
        return change
    }

    package var shownValues: ChangeValues? { values }

    package func with(_ values: ChangeValues?) -> HistoryChange {
        var change = self
        change.values = values
        return change
    }

    /// For holding many changes at once: a tombstone may have any size.
    package var withoutTombstone: HistoryChange {
        guard tombstone != nil else { return self }
        return HistoryChange(entity: entity, operation: operation, objectID: objectID)
    }
}

extension HistoryChange: Hashable {
    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.operation == b.operation && a.objectID == b.objectID && a.entity == b.entity
            && a.changedProperties.haveSameBytes(as: b.changedProperties) && a.tombstone == b.tombstone
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(entity)
        hasher.combine(operation)
        hasher.combine(objectID)
    }
}

/// The changes of one SQL transaction, with their author.
///
/// A transaction with `recreated` entities has no changes: it marks where the recording of these entities
/// began again.
public struct HistoryTransaction: Hashable, Sendable {
    /// The content of a transaction.
    package enum Body: Equatable, Sendable {
        case changes([HistoryChange])
        /// See `recreated`.
        case recreated([BinaryText])
        /// See `outline`.
        indirect case outline(TransactionOutline)
    }

    /// A transaction is passed on many times, so it is a single reference.
    private final class Content: Sendable {
        let token: HistoryToken
        let authorship: Authorship
        let processID: Int32?
        let timestamp: HistoryTimestamp
        let body: Body

        init(
            _ token: HistoryToken, _ authorship: Authorship, _ processID: Int32?, _ timestamp: HistoryTimestamp,
            _ body: Body
        ) {
            self.token = token
            self.authorship = authorship
            self.processID = processID
            self.timestamp = timestamp
            self.body = body
        }
    }

    private let content: Content

    /// The token of the transaction, which is its position in the history.
    public var token: HistoryToken { content.token }
    /// Nil if the writer declared no author; in a Core Data store, if its context had no `transactionAuthor`.
    public var author: String? { content.authorship.author }
    /// The part of the writer that made the change, as the writer declared it.
    public var context: String? { content.authorship.context }
    /// The writer's process; nil if it declared no author, and in a Core Data store.
    public var processID: Int32? { content.processID }
    /// The writer's process and app by name, in a Core Data store.
    public var application: Application? { content.authorship.application }
    /// When the transaction was recorded.
    public var timestamp: HistoryTimestamp { content.timestamp }
    /// The changes, in order.
    public var changes: [HistoryChange] { if case .changes(let changes) = content.body { changes } else { [] } }
    /// The entities whose changes may have gone unrecorded before this transaction: their tables were
    /// created again, or their triggers were missing for a time. Read their present rows. Empty in every
    /// transaction that has changes.
    public var recreated: [String] {
        if case .recreated(let names) = content.body { names.map(\.text) } else { [] }
    }

    /// The token's number.
    package var number: Int64 { content.token.number }

    package var authorship: Authorship { content.authorship }

    /// The outline of a large transaction in the pipeline, whose `changes` are empty.
    package var outline: TransactionOutline? {
        if case .outline(let outline) = content.body { outline } else { nil }
    }

    package init(
        token: HistoryToken, author: String?, context: String?, processID: Int32?,
        timestamp: HistoryTimestamp, changes: [HistoryChange], recreated: [String] = [],
        application: Application? = nil
    ) {
        self.init(
            token, Authorship(author, context, application: application), processID, timestamp,
            recreated.isEmpty ? .changes(changes) : .recreated(recreated.asBinary))
    }

    package init(
        _ token: HistoryToken, _ authorship: Authorship, _ processID: Int32?, _ timestamp: HistoryTimestamp,
        _ body: Body
    ) {
        content = Content(token, authorship, processID, timestamp, body)
    }

    /// A large transaction without its changes.
    package init(token: HistoryToken, of origin: Origin, outline: TransactionOutline) {
        self.init(
            token, origin.authorship, origin.processID, origin.timestamp,
            .outline(outline))
    }

    /// The same with labels for the objects that have one.
    package func labelled(_ label: (HistoryChange) -> String?) -> HistoryTransaction {
        guard case .changes(let changes) = content.body else { return self }
        return with(changes.map { $0.labelled(label($0)) })
    }

    /// The same with some of the changes, and without an outline.
    package func with(_ changes: [HistoryChange]) -> HistoryTransaction {
        HistoryTransaction(token, authorship, processID, timestamp, .changes(changes))
    }

    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.content === b.content
            || (a.token == b.token && a.authorship == b.authorship && a.processID == b.processID
                && a.timestamp == b.timestamp && a.content.body == b.content.body)
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(content.token) }
}
