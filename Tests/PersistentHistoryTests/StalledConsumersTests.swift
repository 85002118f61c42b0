import Testing

@testable import PersistentHistory

@Suite struct StalledConsumersTests {
    private func at(_ seconds: Int64) -> HistoryTimestamp { HistoryTimestamp(milliseconds: seconds * 1000) }

    @Test func whoIsJustAtWorkHoldsBackNothing() {
        var watch = StalledConsumers()
        #expect(watch.standing([("a", at(100)), ("b", at(159))], now: at(160)) == [])
        #expect(watch.standing([("a", at(100)), ("b", at(159))], now: at(161)) == ["a"])
    }

    @Test func eachIsToldOfOnceUntilItHasCaughtUp() {
        var watch = StalledConsumers()
        #expect(watch.standing([("a", at(0))], now: at(100)) == ["a"])
        #expect(watch.standing([("a", at(0))], now: at(200)) == [])
        #expect(watch.standing([("a", at(0)), ("b", at(100))], now: at(300)) == ["a", "b"])
        #expect(watch.standing([("b", at(100))], now: at(400)) == [])
        #expect(watch.standing([], now: at(500)) == [])
        #expect(watch.standing([("b", at(410))], now: at(600)) == ["b"])
    }
}
