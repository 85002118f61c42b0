import GRDB

/// What makes a store a mirror: a table beside the history's own, and triggers that refuse all writers but one.
///
/// A mirror has the source's tables, its history and its id, and no recording of its own. Triggers are off on the
/// follower's connection (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); on any other a write to a mirrored table fails.
package enum MirrorFormat {
    /// One row: the position, and where in the stream it was found.
    static let schema = """
        CREATE TABLE historyd_mirror (
            id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, store TEXT NOT NULL, epoch INTEGER NOT NULL,
            position TEXT NOT NULL, sequence INTEGER NOT NULL, message TEXT NOT NULL);
        CREATE TABLE historyd_object (
            name TEXT PRIMARY KEY, type TEXT NOT NULL, entity TEXT NOT NULL, sql TEXT NOT NULL) WITHOUT ROWID;
        """

    /// Whether a store is a mirror.
    static func isThere(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'historyd_mirror'")
            ?? false
    }

    /// The statements that keep other writers away from a table, and its rowids as they are when somebody runs VACUUM
    /// (see `RowidKeeper`).
    static func guards(of table: MirrorSchema.Table) -> [String] {
        let name = SQLText.name(table.name)
        let triggers = ["insert", "update", "delete"].map { operation in
            """
            CREATE TRIGGER historyd_mirror_\(operation)_\(table.shape) BEFORE \(operation.uppercased())
            ON \(name) BEGIN SELECT RAISE(ABORT, \
            'this is a mirror: only historyd-nats writes to it; write to the source'); END
            """
        }
        return triggers + ["CREATE INDEX historyd_mirror_rowids_\(table.shape) ON \(name) ((0)) WHERE 0"]
    }
}

extension HistoryError {
    /// What would change a mirror's recording.
    static let isMirror = HistoryError(
        .isMirror, "The store is a mirror: it is recorded at its source.",
        hint: "Track the source. A daemon serves a mirror with \"mirror\": true.")
}
