internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// A row of the history that is no change: it names the entities whose changes may have gone unrecorded up to it.
///
/// It is written in the SQL transaction in which the triggers return, so that every consumer passes it in order,
/// whichever state it has and whenever it runs: everything after it is recorded. Its `kind` is that of a row that
/// is void, `object` tells it from one, and `detail` holds the names as a JSON array.
enum UnrecordedChanges {
    static let object = "recreated"

    /// More than any store has tables.
    private static let longest = 1 << 24

    static func note(_ entities: Set<BinaryText>, _ db: Database) throws {
        guard !entities.isEmpty else { return }
        let names = String(decoding: try JSONEncoder().encode(entities.sorted()), as: UTF8.self)
        try db.execute(
            sql: """
                INSERT INTO historyd_change (origin, kind, object, detail)
                VALUES (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER), ?, ?, ?)
                """,
            arguments: [RecordingFormat.kind(shape: 0, .void), object, names])
    }

    /// What the current row of `id, origin, kind, object, detail` says; nil for any other row.
    @inline(__always) static func entities(_ row: OpaquePointer) throws -> [String]? {
        sqlite3_column_int64(row, 2) == RecordingFormat.kind(shape: 0, .void) ? try names(row) : nil
    }

    private static func names(_ row: OpaquePointer) throws -> [String]? {
        guard sqlite3_column_type(row, 4) == SQLITE_TEXT, ChangeDecoder.text(row, 3) == object
        else { return nil }
        let bytes = Data(ChangeDecoder.bytes(row, 4).map(Array.init) ?? [])
        guard bytes.count <= longest, let names = try? JSONDecoder().decode([String].self, from: bytes),
            !names.isEmpty
        else {
            throw UnexpectedValue("what names the entities with unrecorded changes is not a list of names")
        }
        return names
    }
}
