import Logging
import TestSupport
import Testing

@testable import HistoryDaemon
@testable import PersistentHistory

/// How deliveries become lines of the log.
@Suite struct DeliverySumsTests {
    private let start = ContinuousClock.now

    private func sum(
        _ number: Int64, of hook: String = "p/h", to consumer: String = "Main", store: String = "a",
        author: String? = "W", entity: String? = "person", calls: Int = 1
    ) -> DeliverySum {
        let transaction = HistoryTransaction(
            token: HistoryToken(store: StoreID.sample(), number: number), author: author, context: nil,
            processID: nil, timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        var deliveries = Deliveries(transaction, entity: entity)
        (deliveries.calls, deliveries.transactions) = (calls, calls)
        return DeliverySum(hook: hook, store: store, consumers: [consumer], deliveries: deliveries)
    }

    private func makeSums() -> Throttle<String, DeliverySum> {
        Throttle(period: .seconds(1)) { $0.add($1) }
    }

    @Test func theFirstIsLoggedAtOnceAndTheOthersTogether() {
        var sums = makeSums()
        #expect(sums.add(sum(1), of: "p/h", at: start) == .log(sum(1)))
        #expect(sums.add(sum(2), of: "p/h", at: start + .milliseconds(10)) == .wait(until: start + .seconds(1)))
        for number in 3...300 as ClosedRange<Int64> {
            #expect(sums.add(sum(number), of: "p/h", at: start + .milliseconds(10 + number)) == .nothing)
        }
        let due = sums.take("p/h", at: start + .seconds(1))
        #expect(due == sum(300, calls: 299))
        #expect(sums.take("p/h", at: start + .seconds(1)) == nil)
        // A second counts from the last line.
        #expect(
            sums.add(sum(301), of: "p/h", at: start + .milliseconds(1500)) == .wait(until: start + .seconds(2)))
    }

    @Test func afterASilenceALineComesAtOnce() {
        var sums = makeSums()
        _ = sums.add(sum(1), of: "p/h", at: start)
        #expect(sums.add(sum(2), of: "p/h", at: start + .seconds(1)) == .log(sum(2)))
    }

    @Test func hooksHaveLinesOfTheirOwn() {
        var sums = makeSums()
        _ = sums.add(sum(1), of: "p/h", at: start)
        #expect(sums.add(sum(1, of: "p/other"), of: "p/other", at: start) == .log(sum(1, of: "p/other")))
    }

    @Test func whatDiffersIsLeftOut() throws {
        var sums = makeSums()
        _ = sums.add(sum(1), of: "p/h", at: start)
        _ = sums.add(sum(2), of: "p/h", at: start)
        _ = sums.add(sum(3, to: "Other", store: "b", author: nil, entity: "item"), of: "p/h", at: start)
        let due = try #require(sums.takeAll().first)
        #expect(due.store == nil && due.deliveries.author == nil && due.deliveries.entity == nil)
        #expect(due.consumers == ["Main", "Other"])
        #expect(sums.takeAll().isEmpty)
    }

    /// However deliveries come, nothing is lost, and two lines of a hook are a second apart.
    @Test func nothingIsLost() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SplitMix(state: seed)
        var sums = makeSums()
        var now = start
        var due: ContinuousClock.Instant?
        var lines: [ContinuousClock.Instant] = []
        var logged = 0
        for number in 1...2000 as ClosedRange<Int64> {
            now += .milliseconds(Int64.random(in: 0...40, using: &random))
            if let end = due, end <= now, let sum = sums.take("p/h", at: end) {
                lines.append(end)
                logged += sum.deliveries.calls
                due = nil
            }
            switch sums.add(sum(number), of: "p/h", at: now) {
            case .log(let sum):
                lines.append(now)
                logged += sum.deliveries.calls
            case .wait(let end): due = end
            case .nothing: break
            }
        }
        logged += sums.takeAll().reduce(0) { $0 + $1.deliveries.calls }
        #expect(logged == 2000, "seed \(seed)")
        #expect(zip(lines, lines.dropFirst()).allSatisfy { $1 - $0 >= .seconds(1) }, "seed \(seed)")
    }
}

extension Throttle.Step where Item: Equatable {
    fileprivate static func == (a: Self, b: Self) -> Bool {
        switch (a, b) {
        case (.log(let x), .log(let y)): x == y
        case (.wait(let x), .wait(let y)): x == y
        case (.nothing, .nothing): true
        default: false
        }
    }
}
