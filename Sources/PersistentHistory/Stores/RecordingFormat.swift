package import GRDB

/// How the history lies in the store.
///
/// A commit of one changed row touches one page more than it would untracked: the last leaf of
/// `historyd_change`, which has no index. The other tables are written when tracking begins or the
/// schema changes, and on conflicts (see `TriggerWriter`). Few tables need one of their own beside them, from
/// format 4 on: `historyd_<shape>_rows` (see `KnownRows.swift`). From format 5 on a row may say that changes
/// went unrecorded up to it (see `UnrecordedChanges`).
///
/// A history transaction is the longest run of changes with one `origin`. For a declared writer
/// that is the text the extension gives (key, process, time, author, context), another one for each
/// SQL transaction; for an undeclared one the time in milliseconds.
package enum RecordingFormat {
    package static let version: Int64 = 5

    /// The number that triggers ask `sqlite_compileoption_get` for. "HIST" in ASCII.
    static let originRequest = 1_212_765_012

    /// All names that begin so are ours.
    static let prefix = "historyd_"

    /// In `historyd_change.kind`: shape * 4 + operation.
    package enum Operation: Int64 {
        case insert = 0
        case update = 1
        case delete = 2
        /// No change: stands where the newest change was taken away, so that its number is not given again, or
        /// is a notice of changes that went unrecorded (see `UnrecordedChanges`).
        case void = 3
    }

    /// The numbers that shapes may have: `kind` cannot overflow.
    package static let shapes: ClosedRange<Int64> = 1...(1 << 60)

    package static func kind(shape: Int64, _ operation: Operation) -> Int64 {
        shape * 4 + operation.rawValue
    }

    /// Whether a store is tracked. (GRDB's `tableExists` reads and keeps the whole schema.)
    package static func isThere(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'historyd_store'") ?? false
    }

    static let tables = [
        "historyd_store", "historyd_entity", "historyd_change", conflictTable,
    ]

    package static let schema = """
        CREATE TABLE historyd_store (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE historyd_entity (
            shape INTEGER PRIMARY KEY, name TEXT NOT NULL, definition TEXT NOT NULL, tracked INTEGER NOT NULL);
        CREATE TABLE historyd_change (id INTEGER PRIMARY KEY, origin, kind INTEGER, object, detail);
        \(conflicts);
        """

    static let conflictTable = "historyd_conflict"

    /// Has a row only while a statement runs, or what the last one left.
    static let conflicts =
        "CREATE TABLE historyd_conflict (shape INTEGER, object, tombstone, at INTEGER, updating, k0, k1, k2, k3)"
}
