/// A tracked table as it was at one time: its columns, its key, and what is kept of deleted rows.
///
/// Each change points to the shape its entity had when it was recorded, so that an older change
/// keeps its meaning when the table is altered.
public final class Entity: Sendable, Hashable {
    /// A column of the table.
    public struct Column: Hashable, Codable, Sendable {
        /// The column's name.
        public let name: String
        /// The type as declared, empty where there is none.
        public let declaredType: String

        package init(name: String, declaredType: String) {
            self.name = name
            self.declaredType = declaredType
        }
    }

    /// How a row's identity is written in the history.
    public enum Key: Hashable, Codable, Sendable {
        /// No primary key: the row is known by its rowid.
        case rowid
        /// One column that is never null, stored as it is.
        case column(String)
        /// Several columns, or columns that may be null, stored as a list; a row whose key has a
        /// null in it (SQLite allows that, and more than one of them) is known by its rowid.
        case columns([String])
    }

    /// The number under which the shape stands in the store.
    package let shape: Int64
    /// The table's name.
    public let name: String
    /// The columns, in the table's order.
    public let columns: [Column]
    /// What identifies a row.
    public let key: Key
    /// Columns whose values go into the tombstone of a deleted row, in table order.
    public let preserved: [Column]
    /// What all changes of the entity have in common when they are written.
    let json: EntityJSON
    /// Whether the one preserved column's value is stored as it is, and not as a list.
    package let hasPlainTombstone: Bool

    package init(
        shape: Int64, name: String, columns: [Column], key: Key, preserved: [Column],
        hasPlainTombstone: Bool = false
    ) {
        self.shape = shape
        self.name = name
        self.columns = columns
        self.key = key
        self.preserved = preserved
        json = EntityJSON(name: name, key: key)
        self.hasPlainTombstone = hasPlainTombstone
    }

    public static func == (a: Entity, b: Entity) -> Bool {
        a.shape == b.shape && a.name == b.name && a.columns == b.columns && a.key == b.key
            && a.preserved == b.preserved && a.hasPlainTombstone == b.hasPlainTombstone
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(shape)
        hasher.combine(name)
    }
}
