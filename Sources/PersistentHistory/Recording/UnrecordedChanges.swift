internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// A row of the history that is not a change: it names the entities whose changes may have gone
/// unrecorded up to it.
///
/// It is written in the SQL transaction that restores the triggers. So every consumer passes it in order,
/// whatever its state and whenever it runs, and everything after it is recorded. Its `kind` is that of a
/// void row, `object` distinguishes it from one, and `detail` holds the names as a JSON array.
package enum UnrecordedChanges {
    package static let object = "recreated"

    /// More than the names of any store need.
    private static let longest = 1 << 24

    static func note(_ entities: Set<BinaryText>, _ db: Database) throws {
        guard !entities.isEmpty else { return }
        let names = detail(entities.sorted().map(\.text))
        try db.execute(
            sql: """
                INSERT INTO historyd_change (origin, kind, object, detail)
                VALUES (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER), ?, ?, ?)
                """,
            arguments: [RecordingFormat.kind(shape: 0, .void), object, names])
    }

    /// The `detail` of a row that names these entities.
    package static func detail(_ names: [String]) -> String {
        // Text can always be encoded.
        (try? JSONEncoder().encode(names)).map { String(decoding: $0, as: UTF8.self) } ?? "[]"
    }

    /// The entities named by the current row of `id, origin, kind, object, detail`; nil for any other
    /// row.
    @inline(__always) package static func entities(_ row: OpaquePointer) throws -> [String]? {
        sqlite3_column_int64(row, 2) == RecordingFormat.kind(shape: 0, .void) ? try names(row) : nil
    }

    private static func names(_ row: OpaquePointer) throws -> [String]? {
        guard let bytes = row.textBytes(4), row.isText(3, object) else { return nil }
        guard bytes.count <= longest, let names = try? JSONDecoder().decode([String].self, from: Data(bytes)),
            !names.isEmpty
        else {
            throw UnexpectedValue("what names the entities with unrecorded changes is not a list of names")
        }
        return names
    }
}

/// The objects that ensure that every change of a shape's rows is recorded. They are stored with the
/// shape, so that it can be seen later whether one was missing.
struct RecordingGuard: Codable, Sendable, Equatable {
    /// The roles of the shape's triggers, as in `historyd_<shape>_<role>`.
    let triggers: [String]
    /// The unique indexes through which REPLACE may remove rows.
    let uniqueness: [String]
    /// Whether the shape has a table of known rows.
    let keepsKnownRows: Bool

    init(_ writer: TriggerWriter) {
        triggers = writer.triggers().compactMap { StoreSchema.role(ofObject: $0.name) }.sorted()
        uniqueness = Self.uniqueness(of: writer.table)
        keepsKnownRows = writer.keepsKnownRows
    }

    private static func uniqueness(of table: TableSchema) -> [String] {
        table.uniqueness.map { uniqueness in
            let terms = uniqueness.terms.map { "\($0.text) COLLATE \($0.collation)" }
            return terms.joined(separator: ", ") + (uniqueness.condition.map { " WHERE \($0)" } ?? "")
        }.sorted()
    }

    /// Whether changes of a table may have gone unrecorded since its shape was made: a trigger is gone,
    /// the application has one that may skip ours, or the triggers do not know a unique index.
    ///
    /// If the application created the triggers again with the table, literally and in one transaction,
    /// they were never missing.
    func mayHaveMissedChanges(of shape: Entity, on table: TableSchema) -> Bool {
        let present = Set(
            table.triggers.filter { StoreSchema.shape(ofObject: $0.name) == shape.shape }
                .compactMap { StoreSchema.role(ofObject: $0.name) })
        if !present.isSuperset(of: triggers) { return true }
        if table.mayBeSkipped { return true }
        if table.needsKnownRows, !keepsKnownRows { return true }
        // A column has taken the name that the triggers use for the rowid.
        let rowid = TableSchema.rowidName(hiddenBy: shape.columns.map(\.name))
        if let now = table.rowid, !table.keyIsRowid, now != rowid { return true }
        let now = Self.uniqueness(of: table)
        // After a column was renamed, the texts show less than their number.
        return shape.columns.map { BinaryText($0.name) } == table.columns.map { BinaryText($0.name) }
            ? !Set<BinaryText>(names: uniqueness).isSuperset(of: now.asBinary) : now.count > uniqueness.count
    }
}
