import Foundation
import PersistentHistory
import Testing

/// The four parts, each used alone.
@Suite(.timeLimit(.minutes(60))) struct PartsTests {
    @Test func observer() async throws {
        let store = try TrackedStore()
        let start = try store.write("INSERT INTO person (id) VALUES (1)")
        let observer = try StoreObserver()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            var changes = try observer.remoteChanges(of: store.path, after: start).makeAsyncIterator()
            for id in 2...20 {
                let token = try store.write("INSERT INTO person (id) VALUES (\(id))", as: "Importer")
                #expect(try await changes.next() == token)
            }
            // Commits that come while nobody waits are one.
            try store.write("INSERT INTO person (id) VALUES (21)")
            let last = try store.write("DELETE FROM person")
            #expect(try await changes.next() == last)
            observer.stop()
            #expect(try await changes.next() == nil)
        }
    }

    /// One store moves into the place of another that was not there at first.
    @Test func observerOfAStoreThatComesAndIsReplaced() async throws {
        let first = try TrackedStore()
        let second = try TrackedStore()
        let path = first.path + ".link"
        let observer = try StoreObserver()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            var changes = try observer.remoteChanges(of: path).makeAsyncIterator()
            let new = try first.write("INSERT INTO person (id) VALUES (1)")
            for (store, token) in [
                (first, new), (second, try second.write("INSERT INTO person (id) VALUES (1)")),
            ] {
                #expect(symlink(store.path, path + ".new") == 0)
                #expect(rename(path + ".new", path) == 0)
                #expect(try await changes.next() == token)
                let next = try store.write("INSERT INTO person (id) VALUES (2)")
                #expect(try await changes.next() == next)
            }
            observer.stop()
            #expect(try await changes.next() == nil)
        }
    }

    @Test func fetcher() throws {
        let store = try TrackedStore()
        try store.write("INSERT INTO person (id) VALUES (1)", as: "MainApp")
        try store.write("INSERT INTO person (id) VALUES (2)")
        try store.write("INSERT INTO item (id) VALUES (3)", as: "Importer")
        let fetcher = try HistoryReader(path: store.path)
        var filter = HistoryFilter()
        filter.excludedAuthors = ["MainApp"]
        let batch = try fetcher.batch(after: 0, filter: filter)
        #expect(batch.transactions.map(\.author) == ["Widget", "Importer"])
        #expect(try fetcher.batch(after: batch.end).transactions.isEmpty)
        #expect(try fetcher.newestToken().number == batch.end)
        try fetcher.close()
    }

    @Test func merger() async throws {
        let store = try TrackedStore()
        try store.write("INSERT INTO person VALUES (1, 'Ada', NULL)")
        let merger = ReplicaMerger(store.replica, storePath: store.path)
        let start = try #require(try await merger.checkpoint())
        #expect(try store.replicaRows("SELECT name FROM person") == ["Ada"])
        try store.write("UPDATE person SET name = 'Ada L.'; INSERT INTO person VALUES (2, 'Bob', NULL)")
        let fetcher = try HistoryReader(path: store.path)
        let batch = try fetcher.batch(after: start.number)
        let token = HistoryToken(store: fetcher.storeID, number: batch.end)
        try await merger.merge(batch.transactions, through: token)
        #expect(try await merger.checkpoint() == token)
        #expect(try store.replicaRows("SELECT name FROM person") == ["Ada L.", "Bob"])
        // It has them.
        try await merger.merge(batch.transactions, through: token)
        #expect(try await merger.checkpoint() == token)
        #expect(try store.replicaRows("SELECT name FROM person") == ["Ada L.", "Bob"])
        await merger.close()
        try fetcher.close()
    }

    @Test func cleaner() async throws {
        let store = try TrackedStore()
        let first = try #require(try store.write("INSERT INTO person (id) VALUES (1)"))
        let second = try #require(try store.write("INSERT INTO person (id) VALUES (2)"))
        let cleaner = HistoryCleaner(path: store.path, rule: DeliveryRule(authors: ["Widget"]))
        let outcome = try await cleaner.clean(through: first.number)
        #expect(outcome.deleted == 1)
        #expect(outcome.floor == first)
        let fetcher = try HistoryReader(path: store.path)
        #expect(try fetcher.batch(after: first.number).transactions.map(\.token) == [second])
        try fetcher.close()
    }
}
