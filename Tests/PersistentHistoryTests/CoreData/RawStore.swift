import GRDBSQLite
import Testing

/// Anything may be done to a store.
final class RawStore {
    private let handle: OpaquePointer

    init(_ path: String) throws {
        var handle: OpaquePointer?
        try #require(sqlite3_open(path, &handle) == SQLITE_OK)
        self.handle = try #require(handle)
    }

    func script(_ sql: String) throws {
        try #require(
            sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle)))")
    }

    func close() { sqlite3_close(handle) }
}
