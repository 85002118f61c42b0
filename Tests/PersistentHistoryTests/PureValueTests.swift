import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

@Suite struct HistoryTimestampTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_767_781_800_250, "2026-01-07T10:30:00.250Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"), (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func isWritten(milliseconds: Int64, text: String) {
        #expect(HistoryTimestamp(milliseconds: milliseconds).description == text)
    }

    /// Days follow each other without a gap, over all kinds of leap years.
    @Test func calendarHasNoGaps() {
        var last = CivilDate(daysSince1970: -800_000)
        for day in Int64(-799_999)...800_000 {
            let date = CivilDate(daysSince1970: day)
            let isNext =
                (date.year, date.month, date.day) == (last.year, last.month, last.day + 1)
                || (date.year, date.month, date.day) == (last.year, last.month + 1, 1) && last.day >= 28
                || (date.year, date.month, date.day) == (last.year + 1, 1, 1)
                    && (last.month, last.day) == (12, 31)
            if !isNext {
                Issue.record("\(date) does not follow \(last)")
                return
            }
            last = date
        }
    }
}

@Suite struct HistoryTokenTests {
    @Test func isReadAsWritten() {
        let token = HistoryToken(store: StoreID.sample(), number: 42)
        #expect(HistoryToken(token.description) == token)
    }

    @Test(arguments: [
        "", "42", ":42", "ID:", "ID:-1", "ID:1.5", "ID:99999999999999999999", "ID:9223372036854775807", "a:1",
        "../../victim:1", "ID/x:1", "IDa:1", "ID\n:1", "{ID}:1", "00000000-0000-0000-0000-00000000000g:1",
        "00000000000000000000000000000001:1", "00000000_0000_0000_0000_000000000001:1",
    ])
    func refuses(text: String) {
        #expect(HistoryToken(text.replacing("ID", with: StoreID.sample().text)) == nil)
    }
}

@Suite struct ValueListTests {
    @Test func isRead() {
        let values = ValueList.values(
            "1,T'C3A9',X'00FF',2.5,NULL,T'',-9223372036854775808,9.0e+999", encoding: .utf8)
        #expect(
            values == [
                .integer(1), .text("é"), .blob([0, 255]), .real(2.5), .null, .text(""), .integer(.min),
                .real(.infinity),
            ])
    }

    @Test(arguments: ["T'0'", "X'0G'", "x", ""]) func refuses(text: String) {
        #expect(ValueList.values(text, encoding: .utf8) == nil)
    }

    @Test func readsTheStoresEncoding() {
        #expect(ValueList.values("T'E900'", encoding: .utf16LittleEndian) == [.text("é")])
        #expect(ValueList.values("T'00E9'", encoding: .utf16BigEndian) == [.text("é")])
    }
}

@Suite struct IndexDefinitionTests {
    @Test(
        arguments: [
            ("CREATE UNIQUE INDEX i ON t (a, b DESC)", ["a", "b"], nil),
            (
                "CREATE INDEX \"i(\" ON \"t)\" (lower(a), max(b, c) asc, 'x,y' || d COLLATE NOCASE) WHERE b > ')'",
                ["lower ( a )", "max ( b , c )", "'x,y' || d COLLATE NOCASE"], "b > ')'"
            ),
            (
                "CREATE UNIQUE INDEX i ON t(a /* , ) */, b -- )\n) where a IS NOT NULL",
                ["a", "b"], "a IS NOT NULL"
            ),
            ("CREATE INDEX i ON [t(] ([a,b], `c)`)", ["[a,b]", "`c)`"], nil),
            ("CREATE INDEX i ON t (lower(a) /* so */ DESC) -- and so", ["lower ( a )"], nil),
            ("CREATE INDEX i ON t (a + x'29', \"b\"\")\") WHERE/**/c", ["a + x'29'", "\"b\"\")\""], "c"),
        ] as [(String, [String], String?)])
    func isTakenApart(sql: String, terms: [String], condition: String?) throws {
        let definition = try #require(IndexDefinition(sql))
        #expect(definition.terms.map { SQLTokens.text($0) } == terms)
        #expect(definition.condition.map { SQLTokens.text($0) } == condition)
    }
}

@Suite struct OriginTests {
    @Test func isRead() {
        #expect(
            Origin.declared("k.1\t42\t1000\tWidget\tsync ctx")
                == Origin(
                    Authorship("Widget", "sync ctx"), processID: 42,
                    timestamp: HistoryTimestamp(milliseconds: 1000)))
        #expect(
            Origin.declared("k\t42\t1000\tWidget")
                == Origin(
                    Authorship("Widget", nil), processID: 42, timestamp: HistoryTimestamp(milliseconds: 1000)))
    }

    /// What a binding declares wrongly belongs to nobody.
    @Test(arguments: ["", "k", "k\t1\t2", "k\t1\tsoon\tWidget", "\t1\t2\tWidget", "k\t1\t2\t"])
    func givesNoAuthor(text: String) {
        #expect(Origin.declared(text).author == nil)
    }
}

@Suite struct DeliveryRuleTests {
    @Test(arguments: [true, false]) func delivers(unlisted: Bool) {
        let rule = DeliveryRule(
            authors: ["App", "Batch"], deliversUnlisted: unlisted, mirroringAuthors: ["Cloud"])
        #expect(!rule.delivers("App", to: "App"))
        #expect(rule.delivers("Batch", to: "App"))
        #expect(rule.delivers(nil, to: "App") == unlisted)
        #expect(rule.delivers("Stranger", to: "App") == unlisted)
        #expect(!rule.delivers("Cloud", to: "App"))
        #expect(!rule.delivers("NSCloudKitMirroringDelegate.import", to: "App"))
        #expect(
            DeliveryRule(authors: [], mirroringAuthors: ["Cloud"], includingMirroring: true).delivers(
                "Cloud", to: "App"))
    }
}

@Suite struct FailurePolicyTests {
    @Test func doublesTheDelayUpToTheLongest() {
        let policy = FailurePolicy(
            attempts: 5, initialDelay: .milliseconds(100), maximumDelay: .milliseconds(500))
        #expect(
            (1...6).map { policy.decision(afterFailedAttempt: $0) } == [
                .retry(after: .milliseconds(100)), .retry(after: .milliseconds(200)),
                .retry(after: .milliseconds(400)),
                .retry(after: .milliseconds(500)), .hold(retryAfter: .milliseconds(500)),
                .hold(retryAfter: .milliseconds(500)),
            ])
        #expect(FailurePolicy(attempts: 1, afterLastAttempt: .skip).decision(afterFailedAttempt: 1) == .skip)
        #expect(FailurePolicy(attempts: 1000).decision(afterFailedAttempt: 999) == .retry(after: .seconds(30)))
    }
}

@Suite struct CleaningTests {
    private static let now = HistoryTimestamp(milliseconds: 1_000_000)

    /// Places, and for how many seconds each has stood still.
    private func plan(
        _ places: [String: (Int64, Int64)], newest: Int64 = 100, maximum: Duration? = nil, force: Bool = false
    ) -> CleaningPlan {
        let holders = ["A", "B"].map { name in
            CleaningPlan.Holder(
                consumer: name, number: places[name]?.0, standing: .seconds(places[name]?.1 ?? 0))
        }
        return CleaningPlan(holders, newest: newest, maximumDuration: maximum, force: force)
    }

    @Test func isNeverAheadOfAConsumer() {
        #expect(plan(["A": (10, 0), "B": (20, 0)]).number == 10)
        #expect(plan(["A": (20, 0), "B": (10, 0)]).blockers.map(\.name) == ["B", "A"])
        #expect(plan(["A": (100, 0), "B": (100, 0)]).blockers.isEmpty)
        #expect(plan(["A": (10, 0)]).number == nil)
        #expect(plan(["A": (10, 0)], maximum: .seconds(0)).number == nil)
        #expect(plan(["A": (10, 0)]).blockers.map(\.name) == ["B", "A"])
        // A cursor ahead of a store that was restored must not reach beyond it.
        #expect(plan(["A": (500, 0), "B": (500, 0)]).number == 100)
    }

    @Test func passesByWhoStoodStillForTooLong() {
        let one = plan(["A": (10, 501), "B": (20, 1)], maximum: .seconds(500))
        #expect(one.number == 20)
        #expect(one.passedBy.map(\.name) == ["A"])
        #expect(one.blockers.map(\.name) == ["B"])
        #expect(plan(["A": (10, 500), "B": (20, 1)], maximum: .seconds(500)).number == 10)
        // Where all stand still, all is deleted; who has had all is passed by nobody.
        let all = plan(["A": (10, 501), "B": (100, 900)], maximum: .seconds(500))
        #expect(all.number == 100)
        #expect(all.passedBy.map(\.name) == ["A"])
    }

    @Test func byForceNobodyIsWaitedFor() {
        let plan = plan(["A": (10, 0)], force: true)
        #expect(plan.number == 100)
        #expect(plan.passedBy.map(\.name) == ["B", "A"])
        #expect(plan.blockers.isEmpty)
    }

    /// Moved at 1000 s by the clock, and when the store had been served for 100 s.
    private func standing(
        _ number: Int64 = 10, missing: Int64? = 1000, now: Int64, served: Int64
    ) -> Duration {
        StalledTime.duration(
            of: Checkpoint(position: number, movedAt: Self.at(1000), movedAtServed: .seconds(100)), newest: 20,
            firstMissing: missing.map(Self.at), now: Self.at(now), served: .seconds(served))
    }

    private static func at(_ seconds: Int64) -> HistoryTimestamp {
        HistoryTimestamp(milliseconds: seconds * 1000)
    }

    @Test func standsStillOnlyWhoCouldHaveMoved() {
        #expect(standing(now: 1050, served: 150) == .seconds(50))
        // Who has everything does not stand still, however long nothing came.
        #expect(standing(20, missing: nil, now: 9000, served: 8000) == .zero)
        #expect(standing(missing: 8999, now: 9000, served: 8000) == .seconds(1))
        // While nobody served the store, nobody could move.
        #expect(standing(now: 9000, served: 101) == .seconds(1))
        // The clock set forward makes nobody late; set back, it does not hide anybody for ever.
        #expect(standing(now: 90_000_000, served: 150) == .seconds(50))
        #expect(standing(now: 10, served: 150) == .seconds(50))
        #expect(standing(missing: 5000, now: 1050, served: 150) == .seconds(50))
    }

    @Test func theMoreOthersWriteTheRarerTheStepsAre() {
        var pace = CleaningPace(size: 100, in: 10...800)
        func pause(_ duration: Duration, _ wrote: Bool = false) -> Duration {
            pace.pause(after: duration, done: 100, others: .init(wrote: wrote))
        }
        #expect(pause(.microseconds(100)) == .milliseconds(1))
        #expect(pace.size == 200)
        for _ in 0..<10 { _ = pause(.microseconds(100)) }
        #expect(pace.size == 800)
        #expect(pause(.milliseconds(2), true) == .milliseconds(400))
        #expect(pace.size == 400)
        for _ in 1..<CleaningPace.stepsOfCare { #expect(pause(.milliseconds(1)) == .milliseconds(200)) }
        #expect(pause(.milliseconds(1)) == .milliseconds(2))
        for _ in 0..<10 { _ = pause(.seconds(9), true) }
        #expect(pace.size == 10)
        #expect(pause(.milliseconds(400), true) == .seconds(1))
    }

    @Test func theCleanerKeepsAheadOfThoseWhoWrite() {
        var pace = CleaningPace(size: 250, in: 250...2000)
        // 500 changes a second: in 250 ms half of what a step deletes.
        let some = CleaningPace.Others(wrote: true, changes: 100, time: .milliseconds(200))
        #expect(pace.pause(after: .milliseconds(2), done: 250, others: some) == .milliseconds(250))
        let many = CleaningPace.Others(wrote: true, changes: 100_000, time: .milliseconds(200))
        #expect(pace.pause(after: .milliseconds(2), done: 250, others: many) == .milliseconds(4))
    }

    @Test func comesRoundOnTime() {
        var schedule = CleaningSchedule(
            strategy: .byDuration(.seconds(100)), lastCleaned: HistoryTimestamp(milliseconds: 950_000))
        #expect(schedule.delay(now: Self.now) == .seconds(50))
        #expect(!schedule.isDue(now: Self.now))
        #expect(schedule.isDue(now: HistoryTimestamp(milliseconds: 1_050_000)))
        // A clock that was set back does not put it off.
        #expect(schedule.isDue(now: HistoryTimestamp(milliseconds: 900_000)))
        schedule.lastCleaned = nil
        #expect(schedule.isDue(now: Self.now))
        #expect(!CleaningSchedule(strategy: .none).isDue(now: Self.now))
        #expect(!CleaningSchedule(strategy: .byNotification(times: 3), notifications: 2).isDue(now: Self.now))
        #expect(CleaningSchedule(strategy: .byNotification(times: 3), notifications: 3).isDue(now: Self.now))
        // What came while a turn was held up counts for the next, but does not make several due.
        func taken(_ notifications: Int, isHeldBack: Bool) -> Int {
            CleaningSchedule(strategy: .byNotification(times: 3), notifications: notifications)
                .taken(isHeldBack: isHeldBack)
        }
        #expect([3, 4, 100].map { taken($0, isHeldBack: false) } == [3, 3, 99])
        #expect([3, 4, 100].map { taken($0, isHeldBack: true) } == [2, 2, 98])
    }
}
