internal import GRDBSQLite

/// What the first bytes of a store tell.
enum StoreHeader {
    /// Whether a store is in WAL mode, without touching its `-wal` and without a lock.
    ///
    /// It is read through SQLite's own file: closing any other descriptor of the store would drop the locks of
    /// this process's connections to it (https://www.sqlite.org/howtocorrupt.html, section 2.2).
    ///
    /// - Returns: Nil where it cannot be read, or is too short for a header.
    static func isInWALMode(_ path: String) -> Bool? {
        var connection: OpaquePointer?
        defer { sqlite3_close_v2(connection) }
        guard sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil) == SQLITE_OK else { return nil }
        var file: UnsafeMutablePointer<sqlite3_file>?
        let result = withUnsafeMutablePointer(to: &file) {
            sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, $0)
        }
        guard result == SQLITE_OK, let file, let read = file.pointee.pMethods?.pointee.xRead else { return nil }
        // The versions for writing and for reading: 2 is WAL (https://www.sqlite.org/fileformat2.html, 1.3).
        var versions: (UInt8, UInt8) = (0, 0)
        guard read(file, &versions, 2, 18) == SQLITE_OK else { return nil }
        return versions.1 == 2
    }
}
