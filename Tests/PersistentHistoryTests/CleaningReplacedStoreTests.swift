import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A store becomes another one between the plan of a cleanup and its steps: no consumer has received what is in it now.
@Suite(.timeLimit(.minutes(60))) struct CleaningReplacedStoreTests {
    /// A plan that allows three transactions to go, in a folder with a copy of the store after two of them.
    private func planned() async throws -> (store: GatekeeperStore, backup: String, plan: CleaningPlan) {
        let store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = DELETE")
        let backup = store.folder.file("backup.sqlite")
        for number in 1...2 { try store.write("A", "INSERT INTO t VALUES (\(number), 0)") }
        try FileManager.default.copyItem(atPath: store.path, toPath: backup)
        try store.write("A", "INSERT INTO t VALUES (3, 0)")
        try await store.serve(store.served(["Main"]), [Listener().observer()])
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        let plan = try CleaningPlan(store.served(["Main"]), source: reader, state: state)
        try state.close()
        try reader.close()
        #expect(plan.number == 3)
        return (store, backup, plan)
    }

    private func clean(_ store: GatekeeperStore, _ plan: CleaningPlan) async throws -> Int {
        try await plan.carryOut(on: store.served(["Main"]), reporter: SilentReporter()) { false }.deleted
    }

    private func replace(_ store: GatekeeperStore, by file: String) throws {
        try FileManager.default.removeItem(atPath: store.path)
        try FileManager.default.moveItem(atPath: file, toPath: store.path)
    }

    @Test("Another store's file")
    func anotherStore() async throws {
        let (store, _, plan) = try await planned()
        let other = try GatekeeperStore(pragmas: "PRAGMA journal_mode = DELETE")
        for number in 1...4 { try other.write("A", "INSERT INTO t VALUES (\(number), 0)") }
        try replace(store, by: other.path)
        let error = await #expect(throws: HistoryError.self) { try await clean(store, plan) }
        #expect(error?.code == .tokenForeign)
        #expect(try store.history() == [1, 2, 3, 4])
    }

    @Test("A backup that was written to, further than the plan goes, or not so far", arguments: [0, 1, 2])
    func backup(_ more: Int) async throws {
        let (store, backup, plan) = try await planned()
        try replace(store, by: backup)
        for number in 0..<more { try store.write("A", "INSERT INTO t VALUES (\(10 + number), 0)") }
        let error = await #expect(throws: HistoryError.self) { try await clean(store, plan) }
        #expect(error?.code == .tokenAhead)
        #expect(try store.history() == Array(1...Int64(2 + more)))
    }

    @Test("The same store, written to since, is cleaned as planned")
    func theSame() async throws {
        let (store, _, plan) = try await planned()
        try store.write("A", "INSERT INTO t VALUES (4, 0)")
        #expect(try await clean(store, plan) == 3)
        #expect(try store.history() == [4])
    }

    @Test("A plan for a store that was restored before it was made allows nothing")
    func restoredBefore() async throws {
        let (store, backup, _) = try await planned()
        try replace(store, by: backup)
        let cleaning = ManualCleaning(store.served(["Main"]), stateFolder: store.folder.path)
        let error = await #expect(throws: HistoryError.self) { try await cleaning.clean() }
        #expect(error?.code == .tokenAhead)
        #expect(try store.history() == [1, 2])
    }
}
