import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A store over which another file is renamed while it is in use.
@Suite(.timeLimit(.minutes(60))) struct RenamedStoreTests {
    @Test("A store that was renamed over while it was opened is opened again, also without a signal")
    func withoutSignal() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let backup = try await store.backUp()
        let path = store.path
        let stop = OneShotEvent()
        let isRenamed = Locked(false)
        let openings = Locked(0)
        let events = EventLog { event in
            switch event {
            case .trackingComplete:
                // Between the opening and the first look.
                let isFirst = isRenamed.withLock { isRenamed in
                    defer { isRenamed = true }
                    return !isRenamed
                }
                guard isFirst else { return }
                for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
                _ = rename(backup, path)
            case .storeOpened:
                let count = openings.withLock { openings in
                    openings += 1
                    return openings
                }
                if count == 2 { stop.signal() }
            default: break
            }
        }
        // Nobody posts any signal.
        try await store.runner(store.served(["Main"]), [], events, stop: stop).run(watching: StoreSignals())
        #expect(events.count("storeReplaced") == 1)
        #expect(events.count("storeOpened") == 2)
    }

    @Test("Each look finds that the path leads to another file, whatever signal it was made for")
    func anySignal() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let backup = try await store.backUp()
        try store.write("A", "INSERT INTO t VALUES (2, 0)")
        let stop = OneShotEvent()
        let signals = StoreSignals()
        let openings = Locked(0)
        let events = EventLog { event in
            if case .storeOpened = event,
                openings.withLock({
                    $0 += 1; return $0
                }) == 2
            {
                stop.signal()
            }
        }
        try await store.runner(store.served(["Main"]), [], events, stop: stop).run(watching: signals) {
            for suffix in ["-wal", "-shm"] { unlink(store.path + suffix) }
            _ = rename(backup, store.path)
            signals.post(.changed)
        }
        #expect(openings.withLock(\.self) == 2)
    }

    @Test("A store that went while it was opened is not taken for what is there now", arguments: [true, false])
    func beforeItIsKnown(isReplaced: Bool) async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let backup = try await store.backUp()
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.file() == FileID(of: store.path))
        for suffix in ["-wal", "-shm"] { unlink(store.path + suffix) }
        #expect(try reader.file() == FileID(of: store.path))
        #expect((isReplaced ? rename(backup, store.path) : unlink(store.path)) == 0)
        let error = #expect(throws: HistoryError.self) { try reader.file() }
        #expect(error?.code == .storeBusy)
        try reader.close()
    }

    /// What a writer of the new file has in its journal is not a crash's of the old one.
    @Test("A connection to the old file leaves the journal of the new one alone", arguments: [true, false])
    func foreignJournal(writes: Bool) throws {
        let store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = DELETE")
        try store.write(
            "A",
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i, 0 FROM n"
        )
        let backup = store.folder.file("backup.sqlite")
        try FileManager.default.copyItem(atPath: store.path, toPath: backup)
        let old = try StoreConnection.open(store.path, writes ? .write : .read)
        #expect(rename(backup, store.path) == 0)

        let application = try DatabaseQueue(path: store.path)
        try application.writeWithoutTransaction { db in
            // The journal is complete before the commit.
            try db.execute(sql: "PRAGMA cache_size = 2; BEGIN; UPDATE t SET n = n + 1")
            #expect(FileManager.default.fileExists(atPath: store.path + "-journal"))
            let error = #expect(throws: HistoryError.self) {
                try HistoryError.translating(store.path) {
                    if writes {
                        try old.writeInTransaction { _ in }
                    } else {
                        _ = try old.readInTransaction { db in try Row.fetchOne(db, sql: "SELECT * FROM t") }
                    }
                }
            }
            #expect(error?.code == .storeInterrupted)
            try db.execute(sql: "COMMIT")
        }
        try application.close()
        try old.close()
        let sum = try GatekeeperStore.read(store.path) { try Int.fetchOne($0, sql: "SELECT sum(n) FROM t") }
        #expect(sum == 2000)
    }
}
