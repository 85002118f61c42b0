import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Whoever loses history is told so, once, before anything else.
@Suite(.timeLimit(.minutes(60))) struct ExpiryTests {
    /// A store in which "Main" has had the first of three transactions, and the second is deleted.
    private func expired() async throws -> GatekeeperStore {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try await store.serve(store.served(["Main"]), [Listener().observer()])
        try store.write("A", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)")
        _ = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(through: 2)
        return store
    }

    @Test("Each hook is told once, the replica is filled again, and what is left is delivered")
    func once() async throws {
        let store = try await expired()
        let (one, two) = (Listener(), Listener())
        let served = store.served(["Main"], contexts: ["Main": [store.replica()]])
        for _ in 0..<2 {
            try await store.serve(served, [one.observer("p/one"), two.observer("p/two")])
            #expect(one.all() == ["expired 1 > 2", "insert t 3"])
            #expect(two.all() == one.all())
        }
        #expect(try store.rows(of: store.replica().path) == store.rows())
    }

    @Test("A hook that fails to hear of it is told again, also after a restart; those that have heard are not")
    func again() async throws {
        let store = try await expired()
        let deaf = Listener { line, attempt in line.hasPrefix("expired") && attempt < 3 }
        let well = Listener()
        let hooks = [well.observer("p/well"), deaf.observer("p/deaf", attempts: 10)]
        try await store.serve(store.served(["Main"]), hooks)
        #expect(deaf.all() == ["expired 1 > 2", "expired 1 > 2", "expired 1 > 2", "insert t 3"])
        #expect(well.all() == ["expired 1 > 2", "insert t 3"])

        let other = try await expired()
        let broken = Listener { _, attempt in attempt == 1 }
        try await other.serveUntilHeld(other.served(["Main"]), [broken.observer()])
        #expect(broken.all() == ["expired 1 > 2"])
        try await other.serve(other.served(["Main"]), [broken.observer(attempts: 10)])
        #expect(broken.all() == ["expired 1 > 2", "expired 1 > 2", "insert t 3", "insert t 3"])
    }

    /// Fails once, and meanwhile somebody deletes what it was called for.
    private final class Outrun: HookEndpoint {
        private let listener: Listener
        private let path: String

        init(_ listener: Listener, _ path: String) { (self.listener, self.path) = (listener, path) }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            let outcome = await listener.observe(calls)
            if outcome.failure != nil {
                _ = try? await HistoryCleaner(path: path, rule: DeliveryRule(authors: [])).clean(through: 2)
            }
            return outcome
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            try await listener.merge(call)
        }
        func expired(_ call: ExpiredCall) async throws(HookFailure) { try await listener.expired(call) }
    }

    @Test("What is in memory, and is deleted while a hook fails, is not delivered any more")
    func outrun() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try await store.serve(store.served(["Main"]), [Listener().observer()])
        try store.write("A", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)")
        let listener = Listener { line, attempt in line == "insert t 2" && attempt == 1 }
        let hook = Hook(
            id: UUID(), name: "p/o", kind: .observer, consumer: nil,
            endpoint: Outrun(listener, store.path),
            policy: FailurePolicy(
                attempts: 10, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: .hold))
        try await store.serve(store.served(["Main"]), [hook])
        #expect(listener.all() == ["insert t 2", "expired 1 > 2", "insert t 3"])
    }

    @Test("Given up, the call is a dead letter")
    func deadLetter() async throws {
        let store = try await expired()
        let deaf = Listener { line, _ in line.hasPrefix("expired") }
        try await store.serve(store.served(["Main"]), [deaf.observer(then: .skip)])
        #expect(deaf.all() == ["expired 1 > 2", "insert t 3"])
        let letters = try store.state().deadLetters.all().map(\.letter)
        #expect(letters.count == 1)
        let id = try HistoryReader(path: store.path).storeID
        #expect(
            letters.first?.call.contains(#""reason":"expired","lost":"\#(id):1","after":"\#(id):2"}"#) == true)
    }

    @Test("A call that was given up is not made again after a new start")
    func oneDeadLetter() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let broken = Listener { _, _ in true }
        let hooks = [broken.observer("p/skipped", then: .skip), broken.observer("p/held")]
        for _ in 1...3 {
            try await store.serveUntilHeld(store.served(["Main"]), hooks)
            let letters = try store.state().deadLetters.all().map(\.letter)
            #expect(letters.map(\.hook) == ["p/skipped"])
            #expect(letters.map(\.attempts) == [1])
        }
    }

    @Test("A consumer that is new after a cleanup is told where history begins; before one, it need not be")
    func late() async throws {
        let store = try await expired()
        let late = Listener()
        let events = try await store.serve(store.served(["Main", "Late"]), [late.observer(for: "Late")])
        #expect(late.all() == ["late - > 2", "insert t 3"])
        #expect(events.count("consumerBegan") == 1)
        let early = try GatekeeperStore()
        try early.write("A", "INSERT INTO t VALUES (1, 1)")
        let listener = Listener()
        try await early.serve(early.served(["Main"]), [listener.observer()])
        #expect(listener.all() == ["insert t 1"])
    }

    @Test("The state database lost: all begin where history does, with a warning")
    func stateLost() async throws {
        let store = try await expired()
        let id = try HistoryReader(path: store.path).storeID
        for suffix in ["", "-wal", "-shm"] {
            unlink(StateDatabase.path(folder: store.folder.path, store: id) + suffix)
        }
        let listener = Listener()
        let events = try await store.serve(
            store.served(["Main"], contexts: ["Main": [store.replica()]]), [listener.observer()])
        #expect(events.count("stateBegan") == 1)
        #expect(listener.all() == ["late - > 2", "insert t 3"])
        #expect(try store.rows(of: store.replica().path) == store.rows())
        #expect(try await store.serve(store.served(["Main"]), [listener.observer()]).count("stateBegan") == 0)
    }

    @Test("A store restored from a backup between two cleanups, and written to until its numbers are the same")
    func restored() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], contexts: ["Main": [store.replica()]])
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let listener = Listener()
        try await store.serve(served, [listener.observer()])
        _ = try await ManualCleaning(served, stateFolder: store.folder.path).clean()
        let backup = try await store.backUp()
        try store.write("A", "INSERT INTO t VALUES (3, 3)")
        try await store.serve(served, [listener.observer()])
        for suffix in ["-wal", "-shm"] { unlink(store.path + suffix) }
        #expect(rename(backup, store.path) == 0)
        // The same number, another change; and then more.
        try store.write("B", "INSERT INTO t VALUES (33, 33)", "INSERT INTO t VALUES (44, 44)")
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["insert t 1", "insert t 2", "insert t 3", "restored 3 > 4"])
        #expect(try store.rows(of: store.replica().path) == store.rows())
        let outcome = try await ManualCleaning(served, stateFolder: store.folder.path).clean().outcome
        #expect(outcome.floor.number == 4)
        try store.write("B", "INSERT INTO t VALUES (55, 55)")
        try await store.serve(served, [listener.observer()])
        #expect(listener.all().last == "insert t 55")
    }

    /// Puts a backup in the store's place, and writes some transactions.
    private func restore(_ backup: String, _ store: GatekeeperStore, _ scripts: String...) throws {
        for suffix in ["-wal", "-shm"] { unlink(store.path + suffix) }
        try FileManager.default.removeItem(atPath: store.path)
        try FileManager.default.copyItem(atPath: backup, toPath: store.path)
        for script in scripts { try store.write("B", script) }
    }

    @Test("Restored while a hook holds in the middle of a batch, and then once more, it is told of each")
    func restoredTwice() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let backup = try await store.backUp()
        try store.write("A", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)")
        let holding = Listener { line, _ in line == "insert t 3" }
        try await store.serveUntilHeld(served, [holding.observer()])
        #expect(try store.cursor("Main") == 2)

        let listener = Listener()
        try restore(backup, store, "INSERT INTO t VALUES (22, 22)", "INSERT INTO t VALUES (33, 33)")
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["restored 2 > 3"])
        try restore(
            backup, store, "INSERT INTO t VALUES (222, 0)", "INSERT INTO t VALUES (333, 0)",
            "INSERT INTO t VALUES (444, 0)")
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["restored 2 > 3", "restored 3 > 4"])
    }

    @Test(
        "A batch that was not finished before the store was restored cuts no transaction of the other history")
    func restoredUnderABatch() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try await store.serve(served)
        let backup = try await store.backUp()
        try store.write(nil, "INSERT INTO t VALUES (2, 2), (3, 3)")
        let holding = Listener { _, _ in true }
        try await store.serveUntilHeld(served, [holding.observer()])

        let listener = Listener()
        try restore(backup, store, "INSERT INTO t VALUES (22, 0), (33, 0), (44, 0), (55, 0)")
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["insert t 22 33 44 55"])
    }

    @Test(
        "A replica that was filled ahead of its consumer is filled again when the store was restored in between"
    )
    func restoredUnderAReplica() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], contexts: ["Main": [store.replica()]])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let backup = try await store.backUp()
        try store.write("A", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3)")
        let holding = Listener { _, _ in true }
        try await store.serveUntilHeld(served, [holding.observer()])
        #expect(try store.rows(of: store.replica().path) == store.rows())

        try restore(
            backup, store, "INSERT INTO t VALUES (22, 0)", "INSERT INTO t VALUES (33, 0)",
            "INSERT INTO t VALUES (44, 0)")
        let again = try await store.serve(served, [Listener().observer()])
        #expect(try store.rows(of: store.replica().path) == store.rows())
        #expect(again.count("replicaFilled") == 1)
        // Once.
        #expect(try await store.serve(served, [Listener().observer()]).count("replicaFilled") == 0)
    }
}
