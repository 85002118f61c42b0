import GRDB

/// How a store's commits are made atomic (https://www.sqlite.org/pragma.html#pragma_journal_mode).
package enum JournalMode {
    /// Why a store's mode matters to its writers; nil for a store in WAL mode, where it does not.
    package static func note(on path: String) throws -> String? {
        let mode = try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
        }
        guard let mode, mode != "wal" else { return nil }
        return
            "The store \"\(path)\" is in journal mode \(mode): a commit fails while the daemon reads, unless the writer waits for that. Use WAL mode (PRAGMA journal_mode = WAL), or a busy timeout in every writer (PRAGMA busy_timeout = 5000)."
    }
}
