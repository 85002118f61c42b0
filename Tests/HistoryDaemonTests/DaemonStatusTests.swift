import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

/// The line that `systemctl status` shows.
@Suite struct DaemonStatusTests {
    private let token = HistoryToken(store: StoreID.sample(), number: 1)

    @Test func whoHoldsBackTheCleanupIsNamedUntilItMoves() {
        var status = DaemonStatus(stores: 2, hooks: 0)
        func line(_ event: PipelineEvent, store: String = "a") -> String? {
            status.note(event, store: store) ? status.line : nil
        }
        #expect(line(.cleaningHeldBack(by: [])) == nil)
        #expect(
            line(.cleaningHeldBack(by: ["Main/live", "Main"]))
                == "Watching 2 stores, 0 hooks; history kept for \"Main\", \"Main/live\"")
        // Told at each turn.
        #expect(line(.cleaningHeldBack(by: ["Main/live", "Main"])) == nil)
        #expect(
            line(.cleaningHeldBack(by: ["B", "C", "D"]), store: "b")
                == "Watching 2 stores, 0 hooks; history kept for \"B\", \"C\", \"D\" and 2 more")
        #expect(line(.storeOpened(newest: token), store: "b") != nil)
        #expect(line(.cursorMoved(consumer: "Main", to: token), store: "b") == nil)
        #expect(
            line(.cursorMoved(consumer: "Main", to: token))
                == "Watching 2 stores, 0 hooks; history kept for \"Main/live\"")
        #expect(
            line(.feedMoved(consumer: "Main", context: "live", to: token)) == "Watching 2 stores, 0 hooks")
        #expect(line(.feedMoved(consumer: "Main", context: "live", to: token)) == nil)
    }
}
