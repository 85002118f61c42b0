/// How the history is stored.
///
/// A commit of one changed row touches one page more than it would untracked: the last leaf of
/// `historyd_change`, which has no index. The other tables are written when tracking begins, when the
/// schema changes, and on conflicts (see `TriggerWriter`). From format 4 on, a few tables need an
/// additional one, `historyd_<shape>_rows` (see `TriggerWriter+KnownRows.swift`). From format 5 on, a row may say that
/// changes up to it went unrecorded (see `UnrecordedChanges`).
///
/// A history transaction is the longest run of changes with one `origin`. For a declared writer, that is
/// the text from the extension (key, process, time, author, context), which differs for each SQL
/// transaction. For an undeclared writer, it is the time in milliseconds.
package enum RecordingFormat {
    package static let version: Int64 = 5

    /// The number that triggers pass to `sqlite_compileoption_get`. "HIST" in ASCII.
    static let originRequest = 1_212_765_012

    /// All names with this prefix are reserved for the history.
    static let prefix = "historyd_"

    /// Stored in `historyd_change.kind` as shape * 4 + operation.
    package enum Operation: Int64 {
        case insert = 0
        case update = 1
        case delete = 2
        /// Not a change. It replaces the newest change when that is deleted, so that its number is not
        /// used again, or it is a notice of changes that went unrecorded (see `UnrecordedChanges`).
        case void = 3
    }

    /// The numbers that shapes may have, so that `kind` cannot overflow.
    package static let shapes: ClosedRange<Int64> = 1...(1 << 60)

    package static func kind(shape: Int64, _ operation: Operation) -> Int64 {
        shape * 4 + operation.rawValue
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

    /// Has a row only while a statement runs, or one that the last statement left.
    static let conflicts =
        "CREATE TABLE historyd_conflict (shape INTEGER, object, tombstone, at INTEGER, updating, k0, k1, k2, k3)"
}
