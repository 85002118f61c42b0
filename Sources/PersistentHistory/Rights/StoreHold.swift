internal import GRDBSQLite

/// A shared lock on a store, as every reader has it: while it is held, no process changes the journal mode, and
/// closing a connection does not remove the `-wal` and the `-shm`.
///
/// The store is opened, locked and closed by SQLite's own functions for files. Closing any other descriptor of the
/// store would drop the locks of this process's connections
/// (https://www.sqlite.org/howtocorrupt.html, section 2.2). Neither a `-wal` nor a `-shm` is made.
final class StoreHold {
    private let connection: OpaquePointer
    private let file: UnsafeMutablePointer<sqlite3_file>

    /// - Parameter timeout: How long to wait for a writer that keeps readers out.
    /// - Returns: Nil if the store cannot be opened; the next one that opens it gets the error.
    /// - Throws: `HistoryError` with `.storeBusy`.
    init?(_ path: String, timeout: Duration) throws(HistoryError) {
        var connection: OpaquePointer?
        var file: UnsafeMutablePointer<sqlite3_file>?
        let opened = sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil)
        let found = withUnsafeMutablePointer(to: &file) {
            opened == SQLITE_OK
                ? sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, $0) : opened
        }
        guard found == SQLITE_OK, let connection, let file, let lock = file.pointee.pMethods?.pointee.xLock
        else {
            sqlite3_close_v2(connection)
            return nil
        }
        self.connection = connection
        self.file = file
        // As SQLite's own busy handler does it.
        let end = ContinuousClock.now + timeout
        var result = lock(file, SQLITE_LOCK_SHARED)
        while result == SQLITE_BUSY, .now < end {
            sqlite3_sleep(5)
            result = lock(file, SQLITE_LOCK_SHARED)
        }
        guard result == SQLITE_OK else {
            throw HistoryError(
                .storeBusy, "The store \"\(path)\" is locked by another process.",
                hint: "Try again.")
        }
    }

    deinit {
        _ = file.pointee.pMethods?.pointee.xUnlock(file, SQLITE_LOCK_NONE)
        sqlite3_close_v2(connection)
    }

    /// Whether the header says so: 2 is WAL (https://www.sqlite.org/fileformat2.html, section 1.3.3).
    var isInWALMode: Bool {
        guard let read = file.pointee.pMethods?.pointee.xRead else { return false }
        // The versions for writing and for reading.
        var versions: [UInt8] = [0, 0]
        return read(file, &versions, 2, 18) == SQLITE_OK && versions[1] == 2
    }
}
