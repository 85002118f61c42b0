import Foundation
import GRDB
import Testing

@testable import PersistentHistory

/// Closing a descriptor drops the locks of this process: those are found, whoever else has some of the same bytes.
@Suite(.enabled(if: hasPython, "needs \(pythonPath)"), .timeLimit(.minutes(60)))
struct OwnLockTests {
    private func withStore(
        _ journal: String = "WAL", _ body: (String, Python) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withPython { python in
                let path = folder + "/store.sqlite"
                try await python.run(
                    "path = '\(path)'; c = connect(path, 'journal_mode=\(journal)'); c.execute('CREATE TABLE t (x)')"
                )
                try await body(path, python)
            }
        }
    }

    private func connection(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private func isRefused(_ python: Python) async throws -> Bool {
        try await python.run(
            """
            other = sqlite3.connect(path, isolation_level=None, timeout=0)
            try:
                other.execute('BEGIN IMMEDIATE')
                result = 'no'
            except sqlite3.OperationalError as error: result = error
            other.close()
            """) == "database is locked"
    }

    /// Each connection to a store in WAL mode has a lock on the same byte: the first one's hides all others.
    @Test(arguments: ["WAL", "DELETE"])
    func theyAreSeenBehindThoseOfOthers(journal: String) async throws {
        try await withStore(journal) { path, python in
            // Reads, so that it has all locks that a reader has.
            try await python.run("c.execute('BEGIN'); c.execute('SELECT * FROM t').fetchall()")
            let connection = try self.connection(path)
            try connection.inDatabase { db in
                try db.execute(sql: "BEGIN")
                _ = try Row.fetchAll(db, sql: "SELECT * FROM t")
            }
            let probe = try WriterProbe(storePath: path)
            _ = try probe.isWriterActive()
            let error = #expect(throws: ObserverError.self) { try probe.close() }
            #expect(error?.code == .locksHeld)
            try connection.inDatabase { try $0.commit() }
            try connection.close()
            try probe.close()
        }
    }

    /// A connection that still uses a removed `-shm` has its locks on that.
    @Test func theLocksOnARemovedIndexStay() async throws {
        try await withStore { path, python in
            try await python.run("c.close()")
            let connection = try self.connection(path)
            try connection.inDatabase { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            try await withProbe(path) { probe in
                #expect(try !probe.isWriterActive())
                unlink(path + "-shm")
                for _ in 0..<2 { #expect(try !probe.isWriterActive()) }
                let hasLocks = OpenFiles.contains { descriptor, status in
                    status.st_nlink == 0 && OpenFiles.hasProcessLock(by: descriptor)
                }
                #expect(hasLocks == true)
                #expect(UsedSideFiles.areLost(of: path))
                try connection.close()
                #expect(!UsedSideFiles.areLost(of: path))
            }
        }
    }

    @Test func aProbeThatWasKeptFollowsItsStoreToAnotherName() async throws {
        try await withStore { path, python in
            let probes = WriterProbes()
            let kept = try probes.take(path)
            #expect(try !kept.isWriterActive())
            probes.end(kept, isUsedInProcess: true)
            try await python.run("c.close(); os.rename(path, path + '.new'); c = connect(path + '.new')")
            try await python.run("c.execute('BEGIN IMMEDIATE')")
            let again = try probes.take(path + ".new")
            #expect(again === kept)
            #expect(try again.isWriterActive())
            try await python.run("c.execute('COMMIT')")
            #expect(try !again.isWriterActive())
            try again.close()
        }
    }

    /// A connection that reads what is at rest has no locks, and must not drop those of one that came after it.
    @Test(arguments: [true, false])
    func aConnectionWithoutLocksDropsNoneOfAnother(isLogged: Bool) async throws {
        try await withStore(isLogged ? "WAL" : "DELETE") { path, python in
            try await python.run("c.close()")
            let untouched = try UntouchedConnection(path: path, timeout: .zero)
            _ = try untouched.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            let connection = try self.connection(path)
            try connection.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)") }
            #expect(try await isRefused(python))
            try untouched.close()
            _ = try? UntouchedConnection.peek(path) { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
            #expect(try await isRefused(python))
            try connection.inDatabase { try $0.commit() }
            try connection.close()
            #expect(try await !isRefused(python))
        }
    }

    /// Whoever may read a store can lock the byte of a lease.
    @Test func aLeaseOfAProcessThatDoesNotServeTheStoreIsNone() async throws {
        try await withStore { path, python in
            try await withProbe(path) { probe in
                let own = StoreLease(stateFolder: "/nowhere/own")
                var status = stat()
                status.st_ino = 4711
                // One that does not exist, one that has not the store open, and one that has.
                let made = [4_194_300, 1].map { StoreLease(state: FileID(status), process: $0).offset }
                try await python.run(
                    """
                    import fcntl, struct
                    held = open(path, 'rb')
                    def lease(offset): fcntl.fcntl(held, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, offset, 1, 0))
                    for offset in \(made): lease(offset)
                    """)
                // Where other processes may be hidden, a number that is not here may be one of theirs.
                if LeaseHolder(process: 4_194_300, file: FileID(status)).isPlausible { return }
                try probe.take(own, path: path)
                probe.end(own)
                let process = try #require(pid_t(try await python.run("result = os.getpid()")))
                let real = StoreLease(state: FileID(status), process: process).offset
                try await python.run("lease(\(real))")
                let error = #expect(throws: HistoryError.self) { try probe.take(own, path: path) }
                #expect(
                    error?.message.contains("by process \(process) (python") == true,
                    "\(String(describing: error))")
            }
        }
    }
}
