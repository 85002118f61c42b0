import Foundation
import HistoryPlugins
import Logging
import TestSupport
import Testing

@testable import HistoryDaemon
@testable import PersistentHistory

/// What an event says is in the library's log and in the journal.
@Suite struct EventMessageTests {
    private static let samples = EventSamples.all

    private func status() -> LiveStatus { LiveStatus(notifier: SilentNotifier()) }

    private func journal(of store: String, _ status: LiveStatus, _ lines: LoggedLines) -> PipelineLog {
        PipelineLog(
            store: store, logger: lines.logger, status: status, deliveries: DeliveryLog(logger: lines.logger))
    }

    @Test func thereIsASampleOfEachEvent() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(
                path: "Sources/PersistentHistory/Pipeline/Events/PipelineEvent.swift")
        let names = try String(contentsOf: file, encoding: .utf8).matches(of: /\n    case (\w+)/).map {
            String($0.1)
        }
        #expect(names.count > 40)
        #expect(Set(names) == Set(Self.samples.map { EventSamples.name(of: $0) }))
    }

    @Test(arguments: samples)
    func theLibraryLogsWhatTheEventSays(event: PipelineEvent) {
        let lines = LoggedLines()
        LogReporter(logLevel: 2, logger: lines.logger).report(event)
        #expect(
            lines.all
                == event.messages().map { message in
                    var fields = message.fields
                    fields["event"] = message.code.map { "\($0)" }
                    return LoggedLine(level: message.level, text: message.text, fields: fields)
                })
        let important = LoggedLines()
        LogReporter(logLevel: 1, logger: important.logger).report(event)
        #expect(important.all == lines.all.filter { $0.level >= .notice })
        LogReporter(logLevel: 0, logger: important.logger).report(event)
        #expect(important.all.count(where: { $0.level < .notice }) == 0)
    }

    @Test(arguments: samples)
    func theJournalHasTheSameWithTheStoreAndTheID(event: PipelineEvent) {
        let lines = LoggedLines()
        let status = status()
        if case .stateRecovered = event {
            _ = status.apply(.stateFailed(EventSamples.error), store: "contacts")
        }
        journal(of: "contacts", status, lines).report(event)
        var expected = event.messages(of: "contacts").map { message in
            var fields = message.fields
            fields["event"] = message.code.map { "\($0.rawValue)" }
            return LoggedLine(level: message.level, text: message.text, fields: fields)
        }
        // At level debug, each delivery has a line of its own.
        if case .delivered = event { for index in expected.indices { expected[index].level = .debug } }
        #expect(lines.all == expected)
    }

    /// Of a folder's store, only that it came is left to the folder's line; what was done with it is said.
    @Test(arguments: samples)
    func ofAFolderOnlyTheComingIsQuiet(event: PipelineEvent) {
        let (lines, others) = (LoggedLines(), LoggedLines())
        var folder = journal(of: "contacts", status(), lines)
        folder.isOfFolder = true
        folder.report(event)
        journal(of: "contacts", status(), others).report(event)
        let coming = [
            "storeOpened", "trackingUpdated", "trackingComplete", "consumerStands", "feedBegan",
            "replicaFilled",
        ]
        if coming.contains(EventSamples.name(of: event)) {
            #expect(lines.all.allSatisfy { $0.level == .debug }, "\(lines.texts)")
        } else {
            #expect(lines.texts == others.texts)
        }
    }

    @Test("Of a folder's store that has gone, however that was found, only the folder's line tells")
    func ofAFolderTheGoingIsQuiet() {
        let missing = HistoryError(.storeMissing, "There is none.")
        for event in [
            PipelineEvent.storeLost(missing), .watchFailed(ObserverError(.missing, "There is none.")),
        ] {
            let (lines, others) = (LoggedLines(), LoggedLines())
            var folder = journal(of: "contacts", status(), lines)
            folder.isOfFolder = true
            folder.report(event)
            journal(of: "contacts", status(), others).report(event)
            #expect(lines.all.isEmpty && !others.all.isEmpty, "\(lines.texts)")
        }
    }

    /// One that says the store says which.
    @Test(arguments: samples)
    func theStoreIsNamed(event: PipelineEvent) {
        for (plain, named) in zip(event.messages(), event.messages(of: "contacts")) {
            #expect(plain.code == named.code && plain.level == named.level)
            #expect(plain.fields["store"] == nil)
            if named.code != .watchOverflowed { #expect(named.fields["store"] == "contacts") }
            for start in ["The store ", "Store "] { #expect(!named.text.hasPrefix(start + "\"\"")) }
            #expect(named.text.hasPrefix("The store") == false)
            #expect(plain.text.hasSuffix(".") && named.text.hasSuffix("."))
        }
    }

    @Test(arguments: samples)
    func whatEachCommitBringsAboutIsNotImportant(event: PipelineEvent) {
        if event.isRoutine { #expect(event.messages().allSatisfy { $0.level < .notice }) }
    }

    @Test(arguments: samples)
    func theLevelOfAnAlertIsItsOwn(event: PipelineEvent) {
        for message in event.messages() {
            if let code = message.code { #expect(message.level == code.level) }
        }
    }

    /// The fields by which an operator selects, and their values.
    @Test func theFieldsSayWhatItIsAbout() throws {
        let at = EventSamples.token
        #expect(
            PipelineEvent.hookFailed(
                consumer: "Main", hook: "p/h", EventSamples.failure, token: at, attempt: 1, retryAfter: .zero
            ).messages(of: "contacts").map(\.fields)
                == [["store": "contacts", "consumer": "Main", "hook": "p/h", "token": "\(at)"]])
        #expect(
            PipelineEvent.replicaFilled(consumer: "Main", context: "view", at: at).messages().map(\.fields)
                == [["consumer": "Main", "context": "view", "token": "\(at)"]])
        let untracked = PipelineEvent.entitiesUntracked(["b": "No b.", "a": "No a."]).messages()
        #expect(untracked.map(\.fields) == [["entity": "a"], ["entity": "b"]])
        #expect(
            untracked.map(\.text) == ["a", "b"].map { "The store is not tracked as configured. No \($0)." })
        #expect(untracked.allSatisfy { $0.code == .trackingFailed })
    }

    @Test func theCodeSaysWhatAnErrorIs() {
        func code(_ event: PipelineEvent) -> [MessageCode?] { event.messages().map(\.code) }
        #expect(code(.storeLost(HistoryError(.wouldLockOut, "No."))) == [.wouldLockOut])
        #expect(code(.storeLost(HistoryError(.stateFull, "No."))) == [.stateUnavailable])
        #expect(code(.storeLost(EventSamples.error)) == [.storeLost])
        func failed(_ reason: HookFailure.Reason) -> PipelineEvent {
            .hookFailed(
                consumer: "Main", hook: "p/h", HookFailure(reason, "no"), token: EventSamples.token,
                attempt: 1,
                retryAfter: .zero)
        }
        #expect(code(failed(.timedOut)) == [.hookTimedOut])
        #expect(code(failed(.died)) == [.hookFailed])
        // A lock is held now and then.
        let attempts = (1...5).map {
            code(.contextFailed(consumer: "Main", context: "view", EventSamples.error, attempt: $0))
        }
        #expect(attempts == [[nil], [nil], [.contextFailed], [nil], [nil]])
        var outcome = Tracking.Outcome()
        outcome.added = ["person"]
        #expect(code(.trackingUpdated(outcome)) == [.trackingUpdated])
        outcome.beganAgain = true
        #expect(code(.trackingUpdated(outcome)) == [.historyBeganAgain, .trackingUpdated])
    }

    // MARK: What the daemon adds

    @Test func whatIsRepeatedAlertsNobody() {
        let lines = LoggedLines()
        let journal = journal(of: "contacts", status(), lines)
        for _ in 1...2 {
            journal.report(
                .hookHeld(
                    consumer: "Main", hook: "p/h", EventSamples.failure, token: EventSamples.token, attempts: 5,
                    retryAfter: .zero))
        }
        #expect(lines.all.map(\.level) == [.error, .debug])
        #expect(lines.all.map { $0.fields["event"] != nil } == [true, false])
        #expect(Set(lines.all.map(\.text)).count == 1)
    }

    @Test func aStoreThatIsBackIsReportedOnce() {
        let lines = LoggedLines()
        let journal = journal(of: "contacts", status(), lines)
        for _ in 1...2 { journal.report(.storeOpened(newest: EventSamples.token)) }
        journal.report(.storeLost(EventSamples.error))
        journal.report(.stateFailed(EventSamples.error))
        for _ in 1...2 { journal.report(.storeOpened(newest: EventSamples.token)) }
        for _ in 1...2 { journal.report(.stateRecovered) }
        let back = lines.all.filter { $0.fields["event"] == .string(MessageCode.storeBack.rawValue) }
        #expect(
            back.map(\.text) == [
                "Store \"contacts\" can be used again.",
                "The state of store \"contacts\" can be written again.",
            ])
    }
}

private struct SilentNotifier: ServiceNotifying {
    func notify(_ notifications: [ServiceNotification]) {}
}

/// One event of each kind.
enum EventSamples {
    static let token = HistoryToken(store: StoreID.sample(), number: 7)
    static let failure = HookFailure(.refused, "no")
    static let error = HistoryError(.storeBusy, "It is locked.")

    static func name(of event: PipelineEvent) -> String {
        Swift.Mirror(reflecting: event).children.first?.label ?? "\(event)"
    }

    private static var deliveries: Deliveries {
        var deliveries = Deliveries(
            HistoryTransaction(
                token: token, author: "Widget", context: nil, processID: nil,
                timestamp: HistoryTimestamp(milliseconds: 1), changes: []))
        (deliveries.calls, deliveries.transactions) = (2, 1)
        return deliveries
    }
    private static func leftOut(_ kind: ReplicaContext.LeftOut.Kind) -> ReplicaContext.LeftOut {
        ReplicaContext.LeftOut(kind: kind, name: "wide", reason: "too many columns")
    }
    private static var outcome: Tracking.Outcome {
        var outcome = Tracking.Outcome()
        (outcome.added, outcome.beganAgain) = (["person"], true)
        return outcome
    }

    static let all: [PipelineEvent] =
        storeEvents + consumerEvents + hookEvents + contextEvents + cleaningEvents

    private static let storeEvents: [PipelineEvent] = [
        .storeOpened(newest: token), .storeLost(error),
        .watchFailed(ObserverError(.tooManyWatches, "All watches are used up.")), .storeReplaced,
        .watchOverflowed,
        .remoteChange(newest: token), .trackingUpdated(outcome), .trackingFailed(error),
        .entitiesUntracked(["person": "It is no table.", "item": "It is a view."]),
        .recordingDoubtful(["person": ["one", "another"]]), .migrationUnderWay,
        .stateBegan(path: "/state", oldest: token), .trackingComplete, .deadLettersFound(["Main": 2]),
        .stateMovedAside(error, to: "/state.damaged"), .stateFailed(error), .stateRecovered,
    ]

    private static let consumerEvents: [PipelineEvent] = [
        .consumerBegan(consumer: "Main", at: token), .consumerForgotten(consumer: "Main"),
        .consumerStands(consumer: "Main", at: token), .cursorMoved(consumer: "Main", to: token),
        .cursorsMoved(
            MovedConsumers(
                idle: IdleConsumers(
                    ["Main"], at: Checkpoint(position: 7, movedAt: HistoryTimestamp(milliseconds: 1))), count: 1
            ), to: token),
        .feedBegan(consumer: "Main", context: "live", at: token),
        .feedForgotten(consumer: "Main", context: "live"),
        .feedMoved(consumer: "Main", context: "live", to: token),
        .feedExpired(
            consumer: "Main", context: "live", Expiry(reason: .expired, lost: token, after: token)),
        .consumerFailed(consumer: "Main", error, retryAfter: .milliseconds(100)),
        .consumerRecovered(consumer: "Main"), .tokenExpired(consumer: "Main", error),
        .recreated(consumer: "Main", entities: ["person"], at: token),
        .historyLost(consumer: "Main", Expiry(reason: .late, lost: nil, after: token)),
        .lossUnheard(consumer: "Main", hook: "p/h", Expiry(reason: .restored, lost: token, after: token)),
        .consumerPassedBy(consumer: "Main", at: token, standing: .seconds(3)),
        .consumerMoved(consumer: "Main", from: token, to: token, by: "process 7 of uid 0"),
    ]

    private static let hookEvents: [PipelineEvent] = [
        .delivered(consumer: "Main", hook: "p/h", deliveries),
        .hookFailed(
            consumer: "Main", hook: "p/h", failure, token: token, attempt: 1, retryAfter: .milliseconds(100)),
        .hookHeld(
            consumer: "Main", hook: "p/h", failure, token: token, attempts: 5, retryAfter: .seconds(30)),
        .hookRecovered(consumer: "Main", hook: "p/h", token: token, attempts: 5),
        .deadLetterKept(consumer: "Main", hook: "p/h", failure, token: token, attempts: 5),
    ]

    private static let contextEvents: [PipelineEvent] = [
        .merged(consumer: "Main", context: "view", transactions: 1, last: token),
        .replicaFilled(consumer: "Main", context: "view", at: token),
        .contextShows(consumer: "Main", context: "view", token),
        .contextsClosed(consumer: "Main", contexts: ["view"]), .trackingUnderWay(done: 3, of: 1500),
        .replicaMovedAside(consumer: "Main", context: "view", to: "/view.damaged"),
        .replicaTableLeftOut(consumer: "Main", context: "view", leftOut(.table)),
        .replicaIndexLeftOut(consumer: "Main", context: "view", leftOut(.index)),
        .replicaLogGrows(consumer: "Main", context: "view", bytes: 64 << 20),
        .contextFailed(consumer: "Main", context: "view", error, attempt: 3),
        .contextRecovered(consumer: "Main", context: "view", attempts: 3),
    ]

    private static let cleaningEvents: [PipelineEvent] = [
        .cleaned(HistoryCleaner.Outcome(deleted: 2, floor: token, givenBack: 4096, free: 8192)),
        .cleaningBlocked(by: ["Main", "Main/live"]), .cleaningHeldBack(by: ["Main"]), .cleaningFailed(error),
        .cleaningRecovered, .cleaningWaits(error), .cleaningStepped(CleaningEffort()),
    ]
}
