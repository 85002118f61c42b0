import Foundation
import GRDB
import PersistentHistory
import Testing

/// Every commit of another process is seen, without a further write that would wake us by chance.
///
/// The writer waits for the reader's acknowledgement of each commit, so that one lost wake-up hangs for ever.
@Suite(.enabled(if: hasPython, "needs \(pythonPath)"), .timeLimit(.minutes(60)))
struct ObservingCommitTests {
    struct Mode: Sendable, CustomTestStringConvertible {
        let journal: String
        let synchronous: String
        var commits = 400
        /// Python, run before each commit.
        var before = ""

        var testDescription: String { "\(journal), synchronous \(synchronous) \(before)" }
    }

    static let modes =
        ["WAL", "DELETE", "TRUNCATE", "PERSIST"].flatMap { journal in
            ["OFF", "FULL"].map { Mode(journal: journal, synchronous: $0) }
        } + [
            // No journal file at all.
            Mode(journal: "MEMORY", synchronous: "OFF"),
            // The cache spills: the store or the -wal is written long before the commit.
            Mode(journal: "WAL", synchronous: "OFF", commits: 60, before: spill),
            Mode(journal: "DELETE", synchronous: "OFF", commits: 60, before: spill),
            // The -wal starts over, is emptied, or goes and comes back.
            Mode(
                journal: "WAL", synchronous: "NORMAL",
                before: "c.execute('PRAGMA wal_checkpoint(RESTART)').fetchall()"),
            Mode(
                journal: "WAL", synchronous: "NORMAL",
                before: "c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()"),
            Mode(
                journal: "WAL", synchronous: "OFF", commits: 120,
                before: "c.close(); c = connect(path, 'synchronous=OFF')"),
        ]

    static let spill = """
        c.execute('PRAGMA cache_size=1'); c.execute('BEGIN IMMEDIATE')
            for i in range(200): c.execute('INSERT INTO pad VALUES (zeroblob(2000))')
            c.execute('DELETE FROM pad'); time.sleep((n % 7) / 1000)
        """

    @Test(arguments: modes)
    func everyCommitIsSeen(mode: Mode) async throws {
        try await withFolder { folder in
            let path = folder + "/store.sqlite"
            try await withObserver { observer in
                try await withPython { python in
                    try await python.run(
                        """
                        path = '\(path)'
                        c = connect(path, 'journal_mode=\(mode.journal)', 'synchronous=\(mode.synchronous)')
                        c.execute('CREATE TABLE t (x)'); c.execute('CREATE TABLE pad (x)')
                        """)
                    try await withProbe(path) { probe in
                        try await follow(observer, path, to: mode.commits, probe, by: python, mode)
                    }
                }
            }
        }
    }

    /// Reads until the writer's last commit was seen, and closes the connection.
    private func follow(
        _ observer: StoreObserver, _ path: String, to last: Int, _ probe: WriterProbe, by python: Python,
        _ mode: Mode
    ) async throws {
        let reader = try Reader(path)
        let send = python.send
        var seen = 0
        try python.start(
            """
            for n in range(1, \(last) + 1):
                \(mode.before)
                c.execute('INSERT INTO t VALUES (?)', (n,))
                if c.in_transaction: c.execute('COMMIT')
                while line() != 'seen %d\\n' % n: pass
            """)
        let signals = try observer.watch(path)
        while try await signals.next() != nil {
            try await probe.awaitVisibility {
                guard let newest = try await reader.newest(), newest > seen else { return false }
                seen = newest
                try send("seen \(newest)")
                return true
            }
            if seen == last { break }
        }
        #expect(seen == last)
        _ = try await python.answer()
        try reader.connection.close()
    }
}
