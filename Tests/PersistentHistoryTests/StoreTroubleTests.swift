import Testing

@testable import PersistentHistory

/// How long a store that could not be opened or read is left alone.
@Suite struct StoreTroubleTests {
    /// The pauses after as many errors of a kind.
    private func delays(after code: HistoryError.Code, wasOpen: Bool, _ count: Int = 40) -> [Duration] {
        var trouble = StoreTrouble()
        return (0..<count).map { _ in trouble.delay(HistoryError(code, "It failed."), wasOpen: wasOpen) }
    }

    @Test(
        "A store that is there again, or unlocked, is opened within a second, however often it was not",
        arguments: [HistoryError.Code.storeInterrupted, .storeBusy], [true, false])
    func passesSoon(code: HistoryError.Code, wasOpen: Bool) throws {
        let longest = try #require(delays(after: code, wasOpen: wasOpen).max())
        #expect(longest <= .seconds(1))
    }

    @Test("A store that cannot be read is tried more and more rarely")
    func lasts() {
        let delays = delays(after: .storeUnreadable, wasOpen: false)
        #expect(delays == delays.sorted())
        #expect(delays.first.map { $0 < .seconds(1) } == true)
        #expect(delays.last == StoreTrouble.longestDelay)
    }

    @Test("Damage counts once another connection has found it, and not if it found another problem")
    func damage() {
        var trouble = StoreTrouble()
        let damaged = HistoryError(.storeCorrupt, "It is damaged.")
        _ = trouble.delay(damaged, wasOpen: true)
        #expect(!trouble.isLastingDamage)
        _ = trouble.delay(HistoryError(.storeBusy, "It is locked."), wasOpen: false)
        _ = trouble.delay(damaged, wasOpen: false)
        #expect(!trouble.isLastingDamage)
        _ = trouble.delay(damaged, wasOpen: false)
        #expect(trouble.isLastingDamage)
    }

    @Test("An error is said once, and again once the store was open in between")
    func news() {
        var trouble = StoreTrouble()
        let error = HistoryError(.storeUnreadable, "It cannot be read.")
        let isNews = [false, false, true].map { trouble.isNews(error, wasOpen: $0) }
        #expect(isNews == [true, false, true])
    }
}
