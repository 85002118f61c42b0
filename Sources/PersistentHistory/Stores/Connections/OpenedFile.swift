import GRDB
internal import GRDBSQLite

extension Database {
    /// The file that this connection has open; nil if its path leads to another file, or to none, by now.
    ///
    /// Whoever only looks at the path after opening takes a file for its own that was renamed over it in between,
    /// and never notices. The order matters: an open file's inode is not used for another one, so SQLite's comparison
    /// (SQLITE_FCNTL_HAS_MOVED) also proves what was looked at before.
    var openedFile: FileID? {
        guard let connection = sqliteConnection, let name = sqlite3_db_filename(connection, "main") else {
            return nil
        }
        let file = FileID(of: String(cString: name))
        var hasMoved: CInt = 0
        let result = sqlite3_file_control(connection, "main", SQLITE_FCNTL_HAS_MOVED, &hasMoved)
        return result == SQLITE_OK && hasMoved == 0 ? file : nil
    }
}
