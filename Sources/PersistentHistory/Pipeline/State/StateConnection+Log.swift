import GRDB
internal import GRDBSQLite

/// The write-ahead log of a state database: it is kept short, and brought to the disk.
extension StateConnection {
    /// Moves the content of the write-ahead log into the database, through a separate connection. It
    /// waits for the disk twice, which must not delay saving (https://www.sqlite.org/wal.html#ckpt).
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`. The log then keeps everything and only grows.
    func moveLogIntoDatabase() throws {
        // Closing has moved it, or the next access reports the problem.
        guard isOpen, isThere else { return }
        do {
            let queue = try another()
            do {
                _ = try queue.writeWithoutTransaction { try $0.checkpoint(.passive) }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // Another connection moves it now: one that is closing, or another process's.
            }
            try queue.end()
        } catch let error as DatabaseError {
            throw noted(.state(path, error))
        }
    }

    /// Repeatedly moves the write-ahead log into the database. It waits for the disk, so it must not run
    /// on the loop.
    func keepLogShort() async {
        for await _ in logHasGrown {
            do { try moveLogIntoDatabase() } catch {
                // Nothing is lost: the log keeps it, and the next turn tries again. An error that also
                // prevents saving is thrown there.
            }
        }
    }

    /// Makes everything saved so far survive a power failure. With `synchronous=NORMAL`, SQLite does not
    /// sync the write-ahead log at a commit (https://www.sqlite.org/pragma.html#pragma_synchronous).
    ///
    /// A checkpoint would prove nothing: if a reader prevents it from moving the log, SQLite reports
    /// success without any sync. So the log itself is synced, through a separate connection, and saving
    /// does not wait for the disk.
    func syncToDisk() throws {
        do {
            let queue = try another()
            try queue.writeWithoutTransaction { db in
                // SQLite opens the log with the first read.
                _ = try Int.fetchOne(db, sql: "SELECT 1 FROM service")
                try db.syncLog()
            }
            try queue.end()
            try AtomicFile.syncFolder(of: path)
        } catch let error as DatabaseError {
            throw noted(.state(path, error))
        } catch let error as SystemError {
            throw HistoryError.stateFile(
                path, "The state database \"\(path)\" cannot be brought to the disk", error)
        }
    }
}

extension Database {
    /// Syncs the write-ahead log of a connection that has read something, or the file if there is no log.
    fileprivate func syncLog() throws {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let found = sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        guard found == SQLITE_OK, let file, let methods = file.pointee.pMethods,
            let sync = methods.pointee.xSync
        else { throw DatabaseError(resultCode: .SQLITE_IOERR, message: "there is no write-ahead log to sync") }
        let result = sync(file, SQLITE_SYNC_NORMAL)
        if result != SQLITE_OK { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
    }
}
