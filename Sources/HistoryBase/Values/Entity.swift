/// The shape of a tracked table at one time: its columns, its key, and the columns preserved for deleted rows.
///
/// Each change refers to the shape that its entity had when the change was recorded. So an older change keeps its
/// meaning when the table is altered.
public final class Entity: Sendable, Hashable {
    /// A column of the table.
    public struct Column: Sendable {
        /// The column's name.
        public let name: String
        /// The declared type; empty if there is none.
        public let declaredType: String

        package init(name: String, declaredType: String) {
            self.name = name
            self.declaredType = declaredType
        }
    }

    /// How the history writes a row's identity.
    public enum Key: Sendable {
        /// No primary key: the rowid identifies the row.
        case rowid
        /// One column that is never null, stored as it is.
        case column(String)
        /// Several columns, or columns that may be null, stored as a list. If the key of a row contains a null
        /// (SQLite allows several such rows), the rowid identifies the row.
        case columns([String])

        /// The columns' names; none for a rowid.
        package var columns: [String] {
            switch self {
            case .rowid: []
            case .column(let name): [name]
            case .columns(let names): names
            }
        }
    }

    /// What records an entity's changes.
    public enum Source: String, Hashable, Sendable, CaseIterable {
        /// historyd, by triggers.
        case recorded
        /// Core Data or SwiftData: an entity of the model, whose objects have a `Z_PK`.
        case coreData

        /// Whether another program records and deletes the history: the store is never written.
        package var isOnlyRead: Bool {
            switch self {
            case .recorded: false
            case .coreData: true
            }
        }
    }

    /// The number of the shape in the store.
    package let shape: Int64
    /// The table's name.
    public let name: String
    /// The columns, in the table's order.
    public let columns: [Column]
    /// What identifies a row.
    public let key: Key
    /// The columns whose values are kept in the tombstone of a deleted row, in table order.
    public let preserved: [Column]
    /// What records its changes.
    public let source: Source
    /// The JSON that all changes of the entity share.
    package let json: EntityJSON
    /// Whether the value of the only preserved column is stored directly, not as a list.
    package let hasPlainTombstone: Bool

    package init(
        shape: Int64, name: String, columns: [Column], key: Key, preserved: [Column],
        hasPlainTombstone: Bool = false, source: Source = .recorded
    ) {
        self.shape = shape
        self.name = name
        self.columns = columns
        self.key = key
        self.preserved = preserved
        self.source = source
        json = EntityJSON(name: name, key: key, source: source)
        self.hasPlainTombstone = hasPlainTombstone
    }

    /// Whether two are equal.
    public static func == (a: Entity, b: Entity) -> Bool {
        a.shape == b.shape && a.name.hasSameBytes(as: b.name) && a.columns == b.columns && a.key == b.key
            && a.preserved == b.preserved && a.source == b.source && a.hasPlainTombstone == b.hasPlainTombstone
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(shape)
        hasher.combine(bytesOf: name)
    }
}

extension Entity.Column: Hashable {
    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.name.hasSameBytes(as: b.name) && a.declaredType.hasSameBytes(as: b.declaredType)
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: name) }
}

extension Entity.Key: Hashable {
    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        switch (a, b) {
        case (.rowid, .rowid): true
        case (.column(let a), .column(let b)): a.hasSameBytes(as: b)
        case (.columns(let a), .columns(let b)): a.haveSameBytes(as: b)
        default: false
        }
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .rowid: hasher.combine(0)
        case .column(let name): hasher.combine(bytesOf: name)
        case .columns(let names): for name in names { hasher.combine(bytesOf: name) }
        }
    }
}

/// The parts of a change's JSON that are the same for all changes of an entity, written once.
package struct EntityJSON: Sendable {
    /// The key's columns, or `rowid`.
    package let keyColumns: [String]
    /// `"entityName":"item","operation":"insert","objectID":`, by operation.
    private let beginnings: [[UInt8]]
    /// `{"id":`, where the key is one column.
    let keyBeginning: [UInt8]
    /// `/item/`, as it is in an object id's URL.
    let urlName: [UInt8]
    /// `x-history://`
    let urlScheme: StaticString

    package init(name: String, key: Entity.Key, source: Entity.Source) {
        urlScheme =
            switch source {
            case .recorded: "x-history://"
            case .coreData: "x-coredata://"
            }
        keyColumns = key == .rowid ? ObjectID.rowidColumns : key.columns
        beginnings = ChangeOperation.allCases.map { operation in
            var json = JSONBytes()
            json.member("entityName", name)
            json.member("operation", operation.rawValue)
            json.name("objectID")
            return json.bytes.array
        }
        var json = JSONBytes()
        json.name(keyColumns.first ?? "")
        keyBeginning = [UInt8(ascii: "{")] + json.bytes.array
        urlName = [UInt8(ascii: "/")] + ObjectURL.percentEncoded(name) + [UInt8(ascii: "/")]
    }

    func beginning(_ operation: ChangeOperation) -> [UInt8] {
        switch operation {
        case .insert: beginnings[0]
        case .update: beginnings[1]
        case .delete: beginnings[2]
        }
    }
}

extension ObjectID {
    package static let rowidColumns = ["rowid"]
}
