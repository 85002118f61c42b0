import HistoryPlugins
import TestSupport
import Testing

@testable import HistoryDaemon
@testable import PersistentHistory

private let store = StoreID.sample()
private func token(_ number: Int64) -> HistoryToken { HistoryToken(store: store, number: number) }
private let refusal = HookFailure(.refused, "no")
private let error = HistoryError(.storeBusy, "It is locked.")

/// What the daemon knows, from event to event.
@Suite struct RuntimeStatusTests {
    private static let start = HistoryTimestamp(milliseconds: 0)
    private static let main = RuntimeStatus.ConsumerID(store: "a", consumer: "Main")

    private func held(_ hook: String = "p/h") -> PipelineEvent {
        .hookHeld(
            consumer: "Main", hook: hook, refusal, token: token(1), attempts: 2, retryAfter: .zero)
    }

    @Test func whoHoldsBackTheCleanupIsNamedUntilItMoves() {
        var status = RuntimeStatus(stores: 2, hooks: 0)
        func line(_ event: PipelineEvent, store: String = "a") -> String {
            _ = status.apply(event, store: store, at: Self.start)
            return status.line
        }
        let nothing = "Watching 2 stores, 0 hooks"
        #expect(line(.cleaningHeldBack(by: [])) == nothing)
        #expect(
            line(.cleaningHeldBack(by: ["Main/live", "Main"]))
                == "\(nothing); history kept for \"Main\", \"Main/live\"")
        #expect(
            line(.cleaningHeldBack(by: ["B", "C", "D"]), store: "b")
                == "\(nothing); history kept for \"B\", \"C\", \"D\" and 2 more")
        #expect(line(.storeOpened(newest: token(1)), store: "b").contains("\"Main\", \"Main/live\""))
        #expect(line(.cursorMoved(consumer: "Main", to: token(1)), store: "b").contains("\"Main\", "))
        #expect(
            line(.cursorMoved(consumer: "Main", to: token(1)))
                == "\(nothing); history kept for \"Main/live\"")
        #expect(line(.feedMoved(consumer: "Main", context: "live", to: token(1))) == nothing)
    }

    @Test func aCleanupWaitsUntilItsNextStep() {
        var status = RuntimeStatus(stores: 1, hooks: 0)
        func apply(_ event: PipelineEvent) -> RuntimeStatus.Store? {
            _ = status.apply(event, store: "a", at: Self.start)
            return status.stores["a"]
        }
        #expect(apply(.cleaningWaits(HistoryError(.storeBusy, "wait")))?.cleaningWaits != nil)
        #expect(apply(.cleaningStepped(CleaningEffort()))?.cleaningWaits != nil)
        var effort = CleaningEffort()
        effort.countStep()
        #expect(apply(.cleaningStepped(effort))?.cleaningWaits == nil)
        #expect(apply(.cleaningStepped(effort))?.cleaningEffort.steps == 2)
    }

    @Test func aFailureStaysUntilItIsOver() {
        var status = RuntimeStatus()
        func after(_ event: PipelineEvent) -> RuntimeStatus.Consumer {
            _ = status.apply(event, store: "a", at: Self.start)
            return status.consumer(Self.main)
        }
        let failed = PipelineEvent.hookFailed(
            consumer: "Main", hook: "p/h", refusal, token: token(1), attempt: 1, retryAfter: .zero)
        #expect(after(failed).failure == .init(hook: "p/h", reason: "no", isHeld: false))
        #expect(after(held()).failure?.isHeld == true)
        #expect(status.line == "Watching 0 stores, 0 hooks; 1 hook held")
        #expect(status.hooks["p/h"]?.failures == 2)
        #expect(after(.cursorMoved(consumer: "Main", to: token(1))).failure == nil)
        #expect(status.hooks["p/h"]?.lastError?.reason == "no", "the last error is remembered")
        _ = after(.hookRecovered(consumer: "Main", hook: "p/h", token: token(1), attempts: 2))
        #expect(status.line == "Watching 0 stores, 0 hooks")
        status.keepOnly(consumers: [:], hooks: [], plugins: [])
        #expect(status.hooks.isEmpty && status.consumer(Self.main).cursor == nil)
    }

    @Test func whatIsSaidAgainIsKnownAsRepeated() {
        var status = RuntimeStatus()
        func isRepeated(_ event: PipelineEvent, _ seconds: Int64 = 0) -> Bool {
            status.apply(event, store: "a", at: HistoryTimestamp(milliseconds: seconds * 1000)).isRepeated
        }
        #expect(!isRepeated(held()))
        #expect(isRepeated(held()))
        #expect(!isRepeated(held("p/other")))
        #expect(!isRepeated(.stateFailed(error)))
        #expect(isRepeated(.stateFailed(error)))
        let unwatched = PipelineEvent.watchFailed(ObserverError(.missing, "It is not there."))
        #expect(!isRepeated(unwatched))
        #expect(isRepeated(unwatched))
        #expect(!isRepeated(.entitiesUntracked(["person": "It is a view."])))
        #expect(isRepeated(.entitiesUntracked(["person": "It is a view."])))
        #expect(!isRepeated(.entitiesUntracked([:])))
        #expect(!isRepeated(.watchOverflowed))
        #expect(isRepeated(.watchOverflowed, 9))
        #expect(!isRepeated(.watchOverflowed, 20))
    }

    @Test func aStoreIsBackOnlyAfterItWasLost() {
        var status = RuntimeStatus()
        func apply(_ event: PipelineEvent) -> RuntimeStatus.Effects {
            status.apply(event, store: "a", at: Self.start)
        }
        #expect(!apply(.storeOpened(newest: token(1))).isStoreBack)
        _ = apply(.storeLost(error))
        #expect(status.stores["a"]?.problem != nil)
        #expect(apply(.storeOpened(newest: token(1))).isStoreBack)
        _ = apply(.stateFailed(error))
        #expect(apply(.stateRecovered).isStateBack)
        #expect(!apply(.stateRecovered).isStateBack)
    }

    @Test func aPluginFailsUntilItWorks() {
        var status = RuntimeStatus()
        status.pluginFailed("p", refusal, isReported: true, isLasting: false)
        #expect(status.line == "Watching 0 stores, 0 hooks")
        status.pluginFailed("p", refusal, isReported: false, isLasting: true)
        #expect(status.line.hasSuffix("; 1 plugin failing"))
        status.pluginWorks("p")
        #expect(status.line == "Watching 0 stores, 0 hooks")
        #expect(status.plugins["p"]?.failures == 2 && status.plugins["p"]?.uncalled == 1)
        #expect(status.plugins["p"]?.problem == nil)
    }

    /// The line is made only where it may be another one: with each commit, that would be dear.
    @Test(
        "An event that is said not to change the line does not, whatever was before", arguments: 0..<200
    )
    func line(seed: UInt64) {
        var random = SplitMix(state: seed)
        var status = RuntimeStatus(stores: 2, hooks: 2)
        var line = StatusLine(status)
        for _ in 0..<60 {
            let before = status.line
            let event = Self.event(&random)
            let store = ["a", "b"].randomElement(using: &random) ?? "a"
            let effects = status.apply(event, store: store, at: Self.start)
            if !effects.mayChangeLine { #expect(status.line == before, "\(seed): \(event)") }
            // Kept up to date store by store, it is the same.
            line.update(store, status)
            #expect(line.text(of: status) == status.line, "\(seed): \(event)")
        }
    }

    private static func event(_ random: inout SplitMix) -> PipelineEvent {
        let consumer = ["Main", "Widget"].randomElement(using: &random) ?? "Main"
        let hook = ["p/h", "p/g"].randomElement(using: &random) ?? "p/h"
        let attempt = Int.random(in: 1...5, using: &random)
        let at = token(1)
        let events: [PipelineEvent] = [
            .storeOpened(newest: at), .storeLost(error), .stateFailed(error), .stateRecovered,
            .consumerStands(consumer: consumer, at: at), .cursorMoved(consumer: consumer, to: at),
            .hookFailed(
                consumer: consumer, hook: hook, refusal, token: at, attempt: attempt, retryAfter: .zero),
            .hookHeld(
                consumer: consumer, hook: hook, refusal, token: at, attempts: attempt, retryAfter: .zero),
            .hookRecovered(consumer: consumer, hook: hook, token: at, attempts: attempt),
            .deadLetterKept(consumer: consumer, hook: hook, refusal, token: at, attempts: attempt),
            .contextFailed(consumer: consumer, context: "view", error, attempt: attempt),
            .contextRecovered(consumer: consumer, context: "view", attempts: attempt),
            .cleaningHeldBack(by: [consumer, "\(consumer)/live"]), .cleaningHeldBack(by: []),
            .feedMoved(consumer: consumer, context: "live", to: at),
            .consumerFailed(consumer: consumer, error, retryAfter: .zero),
            .consumerRecovered(consumer: consumer),
            .watchOverflowed,
            .storeReplaced,
        ]
        return events.randomElement(using: &random) ?? .storeReplaced
    }
}

/// Who waits for something in the status, and who is notified of it.
@Suite(.timeLimit(.minutes(60))) struct LiveStatusTests {
    private static let main = RuntimeStatus.ConsumerID(store: "a", consumer: "Main")

    private final class Lines: ServiceNotifying {
        let lines = Locked<[String]>([])
        func notify(_ notifications: [ServiceNotification]) {
            lines.withLock { lines in
                for case .status(let line) in notifications { lines.append(line) }
            }
        }
    }

    @Test func aLongTrackingExtendsTheStart() {
        final class Notes: ServiceNotifying {
            let all = Locked<[ServiceNotification]>([])
            func notify(_ notifications: [ServiceNotification]) { all.withLock { $0 += notifications } }
        }
        let notes = Notes()
        let status = LiveStatus(notifier: notes)
        _ = status.apply(.trackingUnderWay(done: 1, of: 1500), store: "a")
        let extensions = notes.all.withLock(\.self).count {
            if case .extendTimeout = $0 { true } else { false }
        }
        #expect(extensions == 1)
    }

    @Test func whoWaitsIsToldAtTheRightMoment() async throws {
        let status = LiveStatus(notifier: Lines())
        async let reached = status.wait(for: Self.main) { state -> Int64? in
            state.cursor.flatMap { $0.number >= 3 ? $0.number : nil }
        }
        for number in 1...5 as ClosedRange<Int64> {
            _ = status.apply(.cursorMoved(consumer: "B", to: token(number * 10)), store: "a")
            _ = status.apply(.cursorMoved(consumer: "Main", to: token(number)), store: "a")
        }
        #expect(try #require(await reached) >= 3)
        // What holds already needs no event.
        #expect(await status.wait(for: Self.main) { $0.cursor?.number } == 5)
    }

    @Test func whoIsCancelledWaitsNoLonger() async {
        let status = LiveStatus(notifier: Lines())
        await withTaskGroup(of: Bool?.self) { group in
            group.addTask { await status.wait(for: Self.main) { _ in nil } }
            group.cancelAll()
            #expect(await group.next() == .some(nil))
        }
    }

    @Test func nobodyWaitsForWhoIsServedNoMore() async throws {
        let status = LiveStatus(notifier: Lines())
        let isLooked = OneShotEvent()
        async let reached = status.wait(for: Self.main) { state -> Int64? in
            isLooked.signal()
            return nil
        }
        await isLooked.wait()
        status.keepOnly(consumers: ["a": ["B"]], hooks: [], plugins: [])
        #expect(await reached == nil)
        #expect(await status.wait(for: Self.main) { state -> Int64? in nil } == nil)
    }

    @Test func theServiceManagerIsNotifiedOfAnotherLineOnly() {
        let lines = Lines()
        let status = LiveStatus(RuntimeStatus(stores: 1, hooks: 0), notifier: lines)
        for _ in 1...2 { _ = status.apply(.storeLost(error), store: "a") }
        _ = status.apply(.cursorMoved(consumer: "Main", to: token(1)), store: "a")
        _ = status.apply(.storeOpened(newest: token(1)), store: "a")
        status.update { $0.setPaused(false, "a") }
        // Whoever replaces it notifies of more than that.
        #expect(status.replace { $0.refusal = "x" } == "Watching 1 store, 0 hooks; reload refused: x")
        #expect(
            lines.lines.withLock { $0 } == [
                "Watching 1 store, 0 hooks; waiting for 1 store", "Watching 1 store, 0 hooks",
            ])
    }
}
