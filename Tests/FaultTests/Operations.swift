import Foundation
import GRDB
import TestSupport
import Testing

import HistoryMirrors
@testable import PersistentHistory

/// A program's own change, outside of historyd.
private func application<T>(_ body: () throws -> T) throws(ApplicationError) -> T {
    do { return try body() } catch { throw ApplicationError(cause: error) }
}

extension FaultStore {
    /// Every row of the table t has exactly its insertion in the history, which nobody has cleaned.
    func expectRowsRecorded(_ location: SourceLocation = #_sourceLocation) throws {
        let rows = try Self.access(path) { try Int.fetchAll($0, sql: "SELECT id FROM t ORDER BY id") }
        #expect(try history() == rows.map { "insert t \($0)" }, sourceLocation: location)
    }

    /// A consumer that is caught up has had everything, and so has its replica.
    func expectServed(_ location: SourceLocation = #_sourceLocation) throws {
        let position = try withState { try $0.cursors.checkpoint(of: "Main")?.position }
        let reader = try HistoryReader(path: path)
        defer { try? reader.close() }
        #expect(try position == reader.newestToken().number, sourceLocation: location)
        if hasReplica {
            #expect(try Self.rows(replica.path) == Self.rows(path), sourceLocation: location)
        }
    }

    /// What was deleted nobody needs any more.
    func expectNothingNeededIsGone(_ location: SourceLocation = #_sourceLocation) throws {
        let floor = try floor()
        try withState { state in
            #expect(try floor <= state.cursors.checkpoint(of: "Main")?.position ?? 0, sourceLocation: location)
            for (feed, state) in try state.feeds.all() {
                #expect(floor <= state.position, "\(feed)", sourceLocation: location)
            }
        }
    }
}

extension FaultStore {
    /// A migration makes the table t anew, with one more column.
    func migrate() throws {
        let migration = try Migration(path)
        do {
            try application {
                try Self.access(path) { db in
                    try db.execute(
                        sql: """
                            BEGIN; CREATE TABLE made (id INTEGER PRIMARY KEY, n INTEGER, m); INSERT INTO made
                            SELECT id, n, 1 FROM t; DROP TABLE t; ALTER TABLE made RENAME TO t; COMMIT
                            """)
                }
            }
        } catch {
            migration.abandon()
            throw error
        }
        _ = try migration.end()
    }

    var mirrorPath: String { folder + "/mirror.sqlite" }

    /// Brings a mirror to where the store is.
    func followWithMirror() throws {
        let source = try MirrorSource(path, spoolingIn: folder)
        let mirror = try Mirror(mirrorPath, of: "test")
        func position(_ group: MirrorSource.Group) -> MirrorPosition {
            MirrorPosition(store: group.store, epoch: 1, position: group.through, sequence: 1, messageID: "s/1")
        }
        let result = Result {
            if let before = mirror.position {
                switch try source.next(after: before.position, of: before.store, knowing: nil) {
                case .group(let group):
                    do {
                        return try mirror.apply(group.body.chunks(), isSnapshot: false, to: position(group))
                    } catch MirrorError.needsSnapshot {
                        // A new one follows.
                    }
                case .nothing: return
                default: break
                }
            }
            let group = try source.snapshot()
            try mirror.apply(group.body.chunks(), isSnapshot: true, to: position(group))
        }
        try? mirror.close()
        try result.get()
    }
}

/// The first tracking of a store.
struct TrackOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.makeUntracked()
        try store.write("INSERT INTO t VALUES (1, 1)", as: nil)
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try Tracking.track(store.path, ["t": ["n"], "u": nil])
    }

    func checkAtEnd(_ store: FaultStore) async throws {
        try store.write("INSERT INTO t VALUES (2, 2)")
        #expect(try store.history() == ["insert t 2"])
    }
}

/// The end of a tracking, with what was recorded.
struct UntrackOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        try store.write("INSERT INTO t VALUES (1, 1)")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        do {
            try Tracking.untrack(store.path, purging: true)
        } catch let error as HistoryError where error.code == .notTracked {
            // The fault came after the commit.
        }
    }

    func checkAtEnd(_ store: FaultStore) async throws {
        let names = try FaultStore.access(store.path) {
            try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema WHERE name LIKE 'historyd%'")
        }
        #expect(names == [])
        #expect(try FaultStore.rows(store.path).count == 1)
    }
}

/// A commit of an application, with its record.
struct RecordOperation: FaultyOperation {
    let journal: String

    func prepare(_ store: FaultStore) async throws {
        try store.make(journal: journal)
        try store.write("INSERT INTO t VALUES (1, 1)")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try application { try store.write("INSERT OR IGNORE INTO t VALUES (2, 2), (3, 3)") }
    }

    func checkAfterFault(_ store: FaultStore) throws { try store.expectRowsRecorded() }

    func checkAtEnd(_ store: FaultStore) async throws { try store.expectRowsRecorded() }
}

/// `historyctl exec`.
struct ExecOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        try store.write("INSERT INTO t VALUES (1, 1)")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try AuthoredSQL.run("INSERT OR IGNORE INTO t VALUES (2, 2), (3, 3)", on: store.path, author: "App")
    }

    func checkAfterFault(_ store: FaultStore) throws { try store.expectRowsRecorded() }

    func checkAtEnd(_ store: FaultStore) async throws { try store.expectRowsRecorded() }
}

/// `historyctl describe`.
struct DescribeOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        try store.write("INSERT INTO t VALUES (1, 1)")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        let description = try StoreDescription(path: store.path)
        #expect(description.entities.map(\.name).sorted() == ["t", "u"])
        #expect(description.changes == 1)
    }

    func checkAtEnd(_ store: FaultStore) async throws { try store.expectRowsRecorded() }
}

/// Opening a store for the first time, fetching, calling a hook, keeping a dead letter, saving checkpoints, and filling
/// a replica.
struct FirstServingOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try await store.serve([DeliveryLog { $0 == "insert t 3" }.hook(then: .skip)], stop: stop)
    }

    func checkAfterFault(_ store: FaultStore) throws { try store.expectRowsRecorded() }

    func checkAtEnd(_ store: FaultStore) async throws {
        try store.expectServed()
        #expect(try store.withState { try $0.deadLetters.all().count } == 1)
    }
}

/// Serving what came since, with a merge into a replica.
struct MergeOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
        try await store.serve([DeliveryLog().hook()])
        try store.write("UPDATE t SET n = 1 WHERE id < 3")
        try store.write("DELETE FROM t WHERE id = 4; INSERT INTO u VALUES (1, 1)")
        try store.write("UPDATE t SET id = 9 WHERE id = 1")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try await store.serve([DeliveryLog().hook()], stop: stop)
    }

    func checkAtEnd(_ store: FaultStore) async throws { try store.expectServed() }
}

/// Sending a feed what there is, and noting what it acknowledges.
struct FeedOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        try await store.serve([DeliveryLog().hook()])
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
        try await store.serve([DeliveryLog().hook()])
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws { try await store.readFeed() }

    func checkAtEnd(_ store: FaultStore) async throws {
        #expect(try store.withState { try $0.feeds.state(of: FaultStore.feed)?.position } == 4)
    }
}

/// A cleanup of what all have processed.
struct CleanOperation: FaultyOperation {
    let journal: String

    func prepare(_ store: FaultStore) async throws {
        try store.make(journal: journal)
        try await store.serve([DeliveryLog().hook()])
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
        try await store.serve([DeliveryLog().hook()])
        try await store.readFeed()
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws { try await store.clean() }

    func checkAfterFault(_ store: FaultStore) throws { try store.expectNothingNeededIsGone() }

    func checkAtEnd(_ store: FaultStore) async throws {
        try store.expectNothingNeededIsGone()
        #expect(try store.history() == [])
        #expect(try store.floor() == 4)
        try store.write("INSERT INTO t VALUES (5, 0)")
        #expect(try store.history() == ["insert t 5"])
    }
}

/// A migration that makes a table anew.
struct MigrateOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        try store.write("INSERT INTO t VALUES (1, 0)")
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try store.migrate()
    }

    func checkAtEnd(_ store: FaultStore) async throws {
        try store.write("INSERT INTO t VALUES (2, 2, 2)")
        let history = try store.history()
        #expect(history.last == "insert t 2")
        #expect(try FaultStore.access(store.path) { try Int.fetchOne($0, sql: "SELECT sum(m) FROM t") } == 3)
    }
}

/// A snapshot and a group, applied to a mirror.
struct MirrorOperation: FaultyOperation {
    func prepare(_ store: FaultStore) async throws {
        try store.make()
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
    }

    func run(_ store: FaultStore, stop: OneShotEvent) async throws {
        try store.followWithMirror()
        try application {
            try store.write("INSERT INTO t SELECT max(id) + 1, 0 FROM t; DELETE FROM t WHERE id = 2")
        }
        try store.followWithMirror()
    }

    func checkAfterFault(_ store: FaultStore) throws {
        guard FileManager.default.fileExists(atPath: store.mirrorPath) else { return }
        #expect(try FaultStore.check(store.mirrorPath) == [])
    }

    func checkAtEnd(_ store: FaultStore) async throws {
        #expect(try FaultStore.rows(store.mirrorPath) == FaultStore.rows(store.path))
    }
}
