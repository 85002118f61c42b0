import Foundation
import GRDB
import PersistentHistory
import Testing

/// Whether a writer is active is told without disturbing anybody.
@Suite(.enabled(if: hasPython, "needs \(pythonPath)"), .timeLimit(.minutes(60)))
struct ObservingProbeTests {
    static let journals = ["WAL", "DELETE", "TRUNCATE", "PERSIST", "MEMORY"]

    private func withStore(
        _ journal: String, _ body: (String, Python, WriterProbe) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            let path = folder + "/store.sqlite"
            try await withPython { python in
                try await python.run(
                    """
                    path = '\(path)'
                    c = connect(path, 'journal_mode=\(journal)')
                    c.execute('CREATE TABLE t (x)')
                    """)
                try await withProbe(path) { try await body(path, python, $0) }
            }
        }
    }

    @Test(arguments: journals, ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN; INSERT INTO t VALUES (1)"])
    func writerOfAnotherProcessIsSeen(journal: String, begin: String) async throws {
        try await withStore(journal) { _, python, probe in
            #expect(try !probe.isWriterActive())
            try await python.run("for s in '\(begin)'.split(';'): c.execute(s)")
            #expect(try probe.isWriterActive())
            try await python.run("c.execute('COMMIT')")
            #expect(try !probe.isWriterActive())
            try await python.run("c.execute('BEGIN IMMEDIATE'); c.execute('ROLLBACK')")
            #expect(try !probe.isWriterActive())
        }
    }

    @Test(arguments: journals)
    func readersAreNotTakenForWriters(journal: String) async throws {
        try await withStore(journal) { _, python, probe in
            try await python.run("c.execute('BEGIN'); c.execute('SELECT * FROM t').fetchall()")
            #expect(try !probe.isWriterActive())
        }
    }

    @Test func askingLocksNothing() async throws {
        try await withStore("WAL") { path, python, probe in
            for _ in 0..<1000 {
                #expect(try !probe.isWriterActive())
            }
            try await python.run("c.execute('BEGIN EXCLUSIVE'); c.execute('COMMIT')")
        }
    }

    @Test(arguments: journals)
    func writerOfThisProcessIsSeen(journal: String) async throws {
        try await withStore(journal) { path, _, probe in
            let connection = try DatabaseQueue(path: path)
            try await connection.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    let isActive = try probe.isWriterActive()
                    #expect(isActive)
                    return .commit
                }
            }
            #expect(try !probe.isWriterActive())
            try connection.close()
        }
    }

    /// What is open may begin a transaction here and end it there.
    private func connection(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private func refusal(_ python: Python) async throws -> String {
        try await python.run(
            """
            c = sqlite3.connect(path, isolation_level=None, timeout=0)
            try: c.execute('BEGIN IMMEDIATE')
            except sqlite3.OperationalError as error: result = error
            """)
    }

    /// The trap of POSIX locks: to close any descriptor of a file drops all of the process's locks on it.
    @Test(arguments: journals)
    func ownLocksSurviveProbesAndTheirClosing(journal: String) async throws {
        try await withStore(journal) { path, python, probe in
            let connection = try self.connection(path)
            // Python would not let go of its lock on the -shm, behind which ours could hide.
            try await python.run("c.close()")
            let second = try WriterProbe(storePath: path)
            try connection.inDatabase { db in
                try db.beginTransaction(.immediate)
                #expect(try second.isWriterActive())
                let error = #expect(throws: ObserverError.self) { try second.close() }
                #expect(error?.code == .locksHeld)
            }
            #expect(try await refusal(python) == "database is locked")
            try connection.inDatabase { try $0.commit() }
            try connection.close()
            try second.close()
            try second.close()
            #expect(throws: ObserverError.self) { try second.isWriterActive() }
        }
    }

    /// As while an operator's query is answered and the store is opened again.
    @Test(arguments: journals)
    func aMigrationIsSeenBesideAConnectionOfThisProcess(journal: String) async throws {
        try await withStore(journal) { path, python, _ in
            // The byte of a migration's lock, by F_OFD_SETLK.
            try await python.run(
                """
                c.close()
                import fcntl, struct
                held = open(path, 'r+b')
                fcntl.fcntl(held, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, (1 << 62) - 1, 1, 0))
                """)
            let connection = try self.connection(path)
            try connection.inDatabase { db in
                try db.beginTransaction(.immediate)
                #expect(Migration.isUnderWay(path))
            }
            #expect(try await refusal(python) == "database is locked")
            try connection.inDatabase { try $0.rollback() }
            try await python.run("held.close()")
            #expect(!Migration.isUnderWay(path))
        }
    }

    @Test func theJournalModeMayChange() async throws {
        try await withStore("DELETE") { _, python, probe in
            for journal in ["WAL", "DELETE", "WAL", "TRUNCATE", "WAL"] {
                try await python.run(
                    "c.execute('PRAGMA journal_mode=\(journal)').fetchall(); c.execute('BEGIN IMMEDIATE')")
                #expect(try probe.isWriterActive(), "in \(journal) mode")
                try await python.run("c.execute('COMMIT')")
                #expect(try !probe.isWriterActive(), "in \(journal) mode")
            }
        }
    }

    /// Each connection that is the last to close deletes the -shm, and the next makes another.
    @Test func theShmMayComeAndGo() async throws {
        try await withStore("WAL") { path, python, probe in
            for _ in 0..<20 {
                try await python.run("c.close()")
                #expect(!FileManager.default.fileExists(atPath: path + "-shm"))
                #expect(try !probe.isWriterActive())
                try await python.run("c = connect(path); c.execute('BEGIN IMMEDIATE')")
                #expect(try probe.isWriterActive())
                try await python.run("c.execute('COMMIT')")
            }
        }
    }

    @Test func exclusiveLockingModeHasNoShm() async throws {
        try await withStore("WAL") { path, python, probe in
            try await python.run("c.close(); c = connect(path, 'locking_mode=EXCLUSIVE')")
            try await python.run("c.execute('INSERT INTO t VALUES (1)')")
            #expect(!FileManager.default.fileExists(atPath: path + "-shm"))
            // It keeps everybody out, writing or not.
            #expect(try probe.isWriterActive())
        }
    }

    @Test func storeMayBeNamedByALink() async throws {
        try await withStore("WAL") { path, python, _ in
            let link = path + ".link"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
            try await withProbe(link) { probe in
                try await python.run("c.execute('BEGIN IMMEDIATE')")
                #expect(try probe.isWriterActive())
            }
        }
    }

    @Test func missingStoreIsAnError() {
        let error = #expect(throws: ObserverError.self) { try WriterProbe(storePath: "/nowhere/store.sqlite") }
        #expect(error?.code == .missing)
        #expect(error?.description == "Cannot find '/nowhere/store.sqlite': No such file or directory.")
    }
}
