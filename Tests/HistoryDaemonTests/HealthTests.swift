import HistoryControl
import HistoryPlugins
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

/// What is known of the daemon, and the verdict on it.
@Suite struct HealthTests {
    private static let now = HistoryTimestamp(milliseconds: 1_800_000_000_000)
    private static let refusal = HookFailure(.refused, "no")
    private static let error = HistoryError(.storeBusy, "It is locked.")
    private static let token = HistoryToken(store: StoreID.sample(), number: 1)

    /// Something that goes wrong, and the causes that the verdict names.
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let change: @Sendable (inout RuntimeStatus) -> Void
        let causes: [HealthReport.Cause]

        init(_ name: String, _ causes: HealthReport.Cause..., events: PipelineEvent...) {
            self.init(name, causes) { status in
                for event in events { _ = status.apply(event, store: "a", at: HealthTests.now) }
            }
        }

        init(
            _ name: String, _ causes: [HealthReport.Cause],
            _ change: @escaping @Sendable (inout RuntimeStatus) -> Void
        ) {
            testDescription = name
            self.causes = causes
            self.change = change
        }
    }

    static let opened = PipelineEvent.storeOpened(newest: token)
    private static let failed = PipelineEvent.hookFailed(
        consumer: "Main", hook: "p/h", refusal, token: token, attempt: 1, retryAfter: .zero)
    private static let held = PipelineEvent.hookHeld(
        consumer: "Main", hook: "p/h", refusal, token: token, attempts: 5, retryAfter: .zero)

    private static func contextFailed(_ attempt: Int) -> PipelineEvent {
        .contextFailed(consumer: "Main", context: "view", error, attempt: attempt)
    }

    private static func standing(_ standing: StoreControl.Standing, unresponsiveTime: Duration? = nil)
        -> @Sendable (inout RuntimeStatus) -> Void
    {
        { status in
            _ = status.apply(opened, store: "a", at: now)
            status.stores["a"]?.standing = standing
            status.stores["a"]?.unresponsiveTime = unresponsiveTime
        }
    }

    private static func lag(
        _ seconds: Int64, _ change: @escaping @Sendable (inout RuntimeStatus.Consumer, Lag) -> Void
    )
        -> @Sendable (inout RuntimeStatus) -> Void
    {
        { status in
            let lag = Lag(
                transactions: 3, oldest: HistoryTimestamp(milliseconds: now.milliseconds - seconds * 1000))
            _ = status.apply(opened, store: "a", at: now)
            var consumer = status.consumer(.init(store: "a", consumer: "Main"))
            change(&consumer, lag)
            status.stores["a"]?.consumers["Main"] = consumer
        }
    }

    static let cases: [Case] = [
        Case("nothing yet", events: opened),
        Case("a folder that cannot be watched", [.folderNotWatched]) {
            $0.folders["t"] = .init(path: "/t", problem: "It cannot be read.", maximum: nil)
        },
        Case("a folder that does not exist", [.folderMissing]) {
            $0.folders["t"] = .init(path: "/t", problem: nil, isMissing: true, maximum: nil)
        },
        Case("a folder with too many files", [.folderCrowded]) {
            $0.folders["t"] = .init(path: "/t", problem: nil, maximum: 10)
        },
        Case("a folder of stores", []) { $0.folders["t"] = .init(path: "/t", problem: nil, maximum: nil) },
        Case("a store that is lost", .storeNotOpen, events: opened, .storeLost(error)),
        Case("a store that is back", events: .storeLost(error), opened),
        Case("a state that cannot be written", .stateNotWritable, events: opened, .stateFailed(error)),
        Case("a state that recovered", events: .stateFailed(error), .stateRecovered),
        Case(
            "a consumer that continues, with nothing to process", events: opened,
            .consumerFailed(consumer: "Main", error, retryAfter: .zero), .consumerRecovered(consumer: "Main")),
        Case("an entity that is not tracked", .notTracked, events: opened, .trackingFailed(error)),
        Case(
            "an entity that is not there", .notTracked, events: opened,
            .entitiesUntracked(["later": "There is none."]),
            .trackingComplete),
        Case(
            "an entity that is there again", events: .entitiesUntracked(["later": "There is none."]),
            .entitiesUntracked([:])),
        Case("an entity that is tracked again", events: .trackingFailed(error), .trackingComplete),
        Case("a hook that failed", .hookRetrying, events: failed),
        Case("a hook that is held", .hookHeld, events: failed, held),
        Case(
            "a hook that recovered",
            events: held, .hookRecovered(consumer: "Main", hook: "p/h", token: token, attempts: 5),
            .cursorMoved(consumer: "Main", to: token)),
        Case(
            "a hook that recovered where nothing follows, such as after lost history",
            events: failed, .hookRecovered(consumer: "Main", hook: "p/h", token: token, attempts: 2)),
        Case(
            "a hook that was held before its consumer started over", events: failed, held,
            .consumerStands(consumer: "Main", at: token)),
        Case(
            "four dead letters", .deadLetters, events: opened, .deadLettersFound(["Main": 4])),
        Case("no dead letters", events: .deadLettersFound(["Main": 4]), .deadLettersFound([:])),
        Case(
            "a dead letter that is kept now", .deadLetters,
            events: opened,
            .deadLetterKept(consumer: "Main", hook: "p/h", refusal, token: token, attempts: 5)),
        Case("a replica that is locked for a moment", events: contextFailed(1)),
        Case("a replica that cannot be written", .replicaNotWritable, events: contextFailed(3)),
        Case(
            "a context whose plugin refuses it", .contextFailing,
            events: .contextFailed(
                consumer: "Main", context: "index", HistoryError(.contextFailed, "no"), attempt: 3)),
        Case(
            "a replica that can be written again",
            events: contextFailed(3), .contextRecovered(consumer: "Main", context: "view", attempts: 3)),
        Case(
            "a consumer that cannot go on", .consumerStuck,
            events: .consumerFailed(consumer: "Main", error, retryAfter: .zero)),
        Case("history that is kept", .historyKept, events: opened, .cleaningHeldBack(by: ["Main"])),
        Case("much history that is never cleaned", [.historyKept]) {
            $0.stores["a", default: .init()].neverCleaned = RuntimeStatus.Store.manyChanges
        },
        Case("some history that is never cleaned", []) {
            $0.stores["a", default: .init()].neverCleaned = RuntimeStatus.Store.manyChanges - 1
        },
        Case("a cleanup that fails", .cleaningFailing, events: opened, .cleaningFailed(error)),
        // It need not have deleted anything.
        Case("a cleanup that goes on", events: opened, .cleaningFailed(error), .cleaningRecovered),
        Case(
            "a cleanup that failed before its store was opened again", events: opened, .cleaningFailed(error),
            .storeLost(error), opened),
        // The history grows no faster than others commit, and these end the wait.
        Case("a cleanup that waits for transactions to end", events: opened, .cleaningWaits(error)),
        Case("a store whose thread waits", [.storeStuck]) {
            $0.stores["a", default: .init()].unresponsiveTime = .seconds(1)
        },
        Case("a store whose thread is at work", []) {
            $0.stores["a", default: .init()].unresponsiveTime = .milliseconds(999)
        },
        Case("a state that was removed", [.stateNotWritable]) {
            $0.stores["a", default: .init()].stateProblem = "It was removed."
        },
        Case("a pause", [.paused]) { $0.setPaused(true, "a") },
        Case("a refused reload", [.reloadRefused]) { $0.refusal = "Line 1 is wrong." },
        Case("a plugin that ended", [.pluginRestarting]) {
            $0.pluginFailed("p", refusal, isReported: false, isLasting: false)
        },
        Case("a plugin that ends again and again", [.pluginFailing]) {
            $0.pluginFailed("p", refusal, isReported: false, isLasting: true)
        },
        Case("a plugin that works again", []) {
            $0.pluginFailed("p", refusal, isReported: false, isLasting: true)
            $0.pluginWorks("p")
        },
        Case("a consumer at work", [], lag(299) { $0.lag = $1 }),
        Case("a consumer that lags", [.lagging], lag(301) { $0.lag = $1 }),
        Case("a feed that nobody reads", [.feedLagging], lag(301) { $0.feedLags["live"] = $1 }),
        Case("a replica that lags", [.lagging]) { status in
            lag(301) { consumer, lag in
                consumer.contexts["view"] = .init(reason: "no", attempt: 1, shown: token, lag: lag)
            }(&status)
        },
        Case("threads that are refused for a moment", []) { $0.lackingThreads = (1, .milliseconds(900)) },
        Case("threads that are refused", [.threadsLacking]) { $0.lackingThreads = (3, .seconds(1)) },
        Case("a store that is not read at once", [], standing(.init(unreadTime: .seconds(9)))),
        Case("a store that is not read", [.storeStuck], standing(.init(unreadTime: .seconds(10)))),
        Case(
            "a store that is not read, and does not answer", [.storeStuck],
            standing(.init(unreadTime: .seconds(10)), unresponsiveTime: .seconds(2))),
        Case("a state that is locked for a moment", [], standing(.init(stateTime: .milliseconds(900)))),
        // Where the store's thread waits for its state, the state is named.
        Case(
            "a state that is locked", [.stateNotWritable],
            standing(.init(stateTime: .seconds(1)), unresponsiveTime: .seconds(1))),
        Case(
            "a replica that is written", [],
            standing(.init(contexts: [.init(consumer: "Main", name: "view", time: .seconds(2))]))),
        Case(
            "a replica whose disk hangs", [.replicaNotWritable],
            standing(.init(contexts: [.init(consumer: "Main", name: "view", time: .seconds(3))]))),
        Case("a pause that lags", [.paused]) { status in
            lag(301) { $0.lag = $1 }(&status)
            status.setPaused(true, "a")
        },
    ]

    @Test(arguments: cases) func verdict(_ example: Case) throws {
        var status = RuntimeStatus(stores: 1, hooks: 1)
        example.change(&status)
        let health = status.health(at: Self.now)
        #expect(health.reasons.map(\.cause) == example.causes)
        #expect(health.verdict == example.causes.map(\.verdict).max() ?? .healthy)
        for reason in health.reasons {
            #expect(reason.message.last == "." || reason.message.hasSuffix("no"), "\(reason.message)")
        }
    }

    @Test func everyCauseHasACase() {
        let met = Set(Self.cases.flatMap(\.causes))
        // The daemon cannot say of itself that it does not answer.
        #expect(met == Set(HealthReport.Cause.allCases).subtracting([.notAnswering]))
    }

    /// The worst is named first, and everything is named.
    @Test func everythingIsNamed() {
        var status = RuntimeStatus()
        for example in Self.cases where !example.causes.isEmpty { example.change(&status) }
        let health = status.health(at: Self.now)
        #expect(health.verdict == .failing)
        #expect(health.reasons.map(\.verdict) == health.reasons.map(\.verdict).sorted(by: >))
    }

    @Test func theLimitIsTheStores() {
        var status = RuntimeStatus()
        Self.lag(20) { $0.lag = $1 }(&status)
        #expect(status.health(at: Self.now).verdict == .healthy)
        status.healthyLags["a"] = .seconds(10)
        let reason = status.health(at: Self.now).reasons.first
        #expect(reason?.message == "\"Main\" is 20 s behind, 3 transactions.")
        #expect(reason?.store == "a" && reason?.consumer == "Main")
    }

    @Test func aFeedMayHaveALimitOfItsOwn() {
        var status = RuntimeStatus()
        Self.lag(400) { $0.feedLags["stream"] = $1 }(&status)
        #expect(status.health(at: Self.now).reasons.map(\.cause) == [.feedLagging])
        status.healthyFeedLags[["a", "Main", "stream"]] = .seconds(900)
        #expect(status.health(at: Self.now).verdict == .healthy)
        status.healthyFeedLags[["a", "Main", "stream"]] = .seconds(300)
        #expect(status.health(at: Self.now).verdict == .degraded)
    }

    /// A replica that fails does not hold its consumer's cursor, and shows nothing of what it missed.
    @Test func nobodyIsDoneWhoseReplicaFails() {
        func at(_ number: Int64) -> HistoryToken { HistoryToken(store: Self.token.store, number: number) }
        var consumer = RuntimeStatus.Consumer()
        consumer.cursor = at(7)
        #expect(consumer.isDone(with: at(7)) && !consumer.isDone(with: at(8)))
        consumer.contexts["view"] = .init(reason: "It is full.", attempt: 1, shown: at(5))
        #expect(consumer.isDone(with: at(5)) && !consumer.isDone(with: at(6)))
        consumer.contexts["view"] = .init(reason: "It is full.", attempt: 1, shown: nil)
        #expect(!consumer.isDone(with: at(1)))
        consumer.contexts = [:]
        #expect(consumer.isDone(with: at(7)))
    }

    /// A replica takes in what it does not show yet, and one that is not open shows nothing that is known.
    @Test func nobodyIsDoneWhoseReplicaDoesNotShowIt() {
        func at(_ number: Int64) -> HistoryToken { HistoryToken(store: Self.token.store, number: number) }
        var status = RuntimeStatus()
        func isDone(_ number: Int64, after events: PipelineEvent...) -> Bool {
            for event in events { _ = status.apply(event, store: "a", at: Self.now) }
            return status.consumer(.init(store: "a", consumer: "Main")).isDone(with: at(number))
        }
        #expect(
            !isDone(
                3, after: .contextsClosed(consumer: "Main", contexts: ["view", "index"]),
                .consumerStands(consumer: "Main", at: at(3))))
        #expect(
            !isDone(
                3, after: .contextShows(consumer: "Main", context: "index", at(5)),
                .contextShows(consumer: "Main", context: "view", at(2))))
        #expect(isDone(2))
        #expect(
            !isDone(
                5, after: .merged(consumer: "Main", context: "view", transactions: 3, last: at(5)),
                .cursorMoved(consumer: "Main", to: at(5))))
        #expect(isDone(5, after: .contextShows(consumer: "Main", context: "view", at(5))))
        // The store was opened again.
        #expect(!isDone(1, after: .contextsClosed(consumer: "Main", contexts: ["view"])))
    }

    /// History that is deleted is not delivered: what a replica missed of it goes on to count.
    @Test func deletedHistoryCountsAsLag() {
        let then = HistoryTimestamp(milliseconds: Self.now.milliseconds - 400_000)
        var lag = Lag()
        lag.includeDeletedHistory(before: Lag(transactions: 3, oldest: then), now: Self.now)
        #expect(lag == Lag(transactions: 3, isAtLeast: true, oldest: then))
        lag = Lag()
        lag.includeDeletedHistory(before: Lag(), now: Self.now)
        #expect(lag == Lag(transactions: 1, isAtLeast: true, oldest: Self.now))
    }

    /// What lags is known until it moves.
    @Test func aConsumerThatMovesLagsNoMore() {
        var status = RuntimeStatus()
        Self.lag(301) { $0.lag = $1 }(&status)
        _ = status.apply(.cursorMoved(consumer: "Main", to: Self.token), store: "a", at: Self.now)
        #expect(status.health(at: Self.now).verdict == .healthy)
    }
}
