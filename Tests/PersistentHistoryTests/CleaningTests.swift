import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a cleanup deletes, keeps, tells, and gives back.
@Suite(.timeLimit(.minutes(60))) struct HistoryCleaningTests {
    @Test("The report says what would go and who holds back what; nothing is deleted for it")
    func report() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Fast", "Slow", "New"])
        try store.write("A", "INSERT INTO t VALUES (1, 1), (2, 2)")
        try await store.serve(store.served(["Fast", "Slow"]), [Listener().observer()])
        try store.write("NSCloudKitMirroringDelegate.export", "INSERT INTO t VALUES (3, 3)")
        try store.write("A", "INSERT INTO t VALUES (4, 4)")
        try await store.serve(store.served(["Fast", "Slow"]), [Listener().observer()])
        let state = try store.state()
        try state.cursors.save(Checkpoint(position: 2, movedAt: .now), of: "Slow")
        try state.close()

        let cleaning = ManualCleaning(store.served(["Fast", "Slow"]), stateFolder: store.folder.path)
        let report = try cleaning.report()
        #expect(report.deleting == 2)
        #expect(report.keepingByRule == 0)
        #expect(report.blockers.map(\.holder.name) == ["Slow"])
        #expect(report.blockers.map(\.changes) == [2])
        #expect([report.floor.number, report.floorAfter.number, report.newest.number] == [0, 2, 4])
        let forced = try cleaning.report(force: true)
        #expect(forced.deleting == 3)
        #expect(forced.keepingByRule == 1)
        #expect(forced.passedBy.map(\.name) == ["Slow"])
        #expect(forced.floorAfter.number == 4)
        // Who has had nothing yet blocks it altogether.
        let all = try ManualCleaning(served, stateFolder: store.folder.path).report()
        #expect(all.deleting == 0)
        #expect(all.blockers.map(\.holder.name) == ["New", "Slow"])
        #expect(try store.history() == [1, 2, 3, 4])

        #expect(try await cleaning.clean(force: true).outcome.deleted == 3)
        #expect(try store.history() == [3])
    }

    @Test("Where there is no state, none is made, and nothing goes")
    func noState() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let folder = store.folder.file("nowhere")
        let report = try await ManualCleaning(store.served(["Main"]), stateFolder: folder).clean().report
        #expect(report.blockers.map(\.holder.name) == ["Main"])
        #expect(!FileManager.default.fileExists(atPath: folder))
        #expect(try store.history() == [1])
    }

    @Test("A consumer that was taken out of the configuration holds back nothing")
    func removed() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        try await store.serve(store.served(["Main", "Gone"]))
        let state = try store.state()
        try state.cursors.save(Checkpoint(position: 0, movedAt: .now), of: "Gone")
        try state.close()
        let turns = { (consumers: [String]) in
            try await store.serve(
                store.served(consumers, cleaning: .byNotification(times: 1)), [Listener().observer()])
        }
        try store.write("A", "INSERT INTO t VALUES (3, 3)")
        _ = try await turns(["Main"])
        #expect(try store.history().isEmpty)
        #expect(try store.cursor("Gone") == nil)
    }

    @Test("Two transactions of one millisecond, of which a consumer has had one")
    func oneMillisecond() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        try store.write(
            nil,
            "UPDATE historyd_change SET origin = 'k' || id || char(9) || '1' || char(9) || '5' || char(9) || 'A'"
        )
        let second = Listener { line, _ in line == "insert t 2" }
        let served = store.served(["Main"])
        try await store.serveUntilHeld(served, [second.observer()])
        _ = try await ManualCleaning(served, stateFolder: store.folder.path).clean()
        #expect(try store.history() == [2])
        let listener = Listener()
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["insert t 2"])
    }

    @Test("A tracker's cleaner does not wait for an author that has stood still for longer than allowed")
    func manualCleanerHeedsMaximumDuration() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        try await store.serve(store.served(["Main", "Slow"]))
        let state = try store.state()
        try state.cursors.save(Checkpoint(position: 1, movedAt: store.clock.clock.wall()), of: "Slow")
        store.clock.advance(5000)
        try state.saveServed(newest: nil)
        try state.close()
        var outcomes: [Int?] = []
        for maximum in [nil, Duration.seconds(3600), .seconds(1)] {
            let served = store.served(["Main", "Slow"], maximumDuration: maximum)
            outcomes.append(try await ManualCleaner(served, stateFolder: store.folder.path).clean()?.deleted)
        }
        #expect(outcomes == [1, 0, 1])
        #expect(try store.history().isEmpty)
    }

    @Test("What is ignored is kept for ever and counted, or cleaned where that is asked for")
    func unlisted() async throws {
        let store = try GatekeeperStore()
        try store.write("Batch", "INSERT INTO t VALUES (1, 1)")
        try store.write("Stranger", "INSERT INTO t VALUES (2, 2), (3, 3)")
        try store.write("NSCloudKitMirroringDelegate.import", "INSERT INTO t VALUES (4, 4)")
        try store.write(nil, "INSERT INTO t VALUES (5, 5)")
        let keeping = DeliveryRule(authors: ["Batch"], deliversUnlisted: false)
        let count = UnlistedCount()
        #expect(try count.count(in: store.path, keeping) == 3)
        _ = try await HistoryCleaner(path: store.path, rule: keeping).clean(through: 5)
        #expect(try store.history() == [2, 3, 4, 5])
        try store.write("Stranger", "INSERT INTO t VALUES (6, 6)")
        #expect(try count.count(in: store.path, keeping) == 4, "it counts on")
        let cleaning = DeliveryRule(authors: ["Batch"], deliversUnlisted: false, cleansUnlisted: true)
        #expect(!cleaning.delivers("Stranger", to: "Batch") && !cleaning.delivers(nil, to: "Batch"))
        _ = try await HistoryCleaner(path: store.path, rule: cleaning).clean(through: 6)
        #expect(try store.history() == [4], "mirroring authors' history stays")
    }

    @Test("A rule that covers more takes away what an earlier one kept")
    func widerRule() async throws {
        let store = try GatekeeperStore()
        try store.write("NSCloudKitMirroringDelegate.import", "INSERT INTO t VALUES (1, 1)")
        try store.write("Stranger", "INSERT INTO t VALUES (2, 2)")
        try store.write("Batch", "INSERT INTO t VALUES (3, 3)", "INSERT INTO t VALUES (4, 4)")
        let rules = [
            DeliveryRule(authors: ["Batch"], deliversUnlisted: false), DeliveryRule(authors: ["Batch"]),
            DeliveryRule(authors: ["Batch"], deliversUnlisted: false, includingMirroring: true),
        ]
        var left: [[Int64]] = []
        for rule in rules {
            _ = try await HistoryCleaner(path: store.path, rule: rule).clean(through: 4)
            left.append(try store.history())
        }
        #expect(left == [[1, 2], [1], []])
    }

    @Test("Space is given back where the store allows it, and otherwise free for reuse")
    func space() async throws {
        let many = """
            WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
            INSERT INTO t SELECT i, i FROM c
            """
        let served = DeliveryRule(authors: [])
        let giving = try GatekeeperStore(pragmas: "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
        try giving.write("A", many)
        let before = try GatekeeperStore.read(giving.path) {
            try Int64.fetchOne($0, sql: "PRAGMA page_count") ?? 0
        }
        let given = try await HistoryCleaner(path: giving.path, rule: served).clean(through: .max)
        let after = try GatekeeperStore.read(giving.path) {
            try Int64.fetchOne($0, sql: "PRAGMA page_count") ?? 0
        }
        #expect(given.givenBack == (before - after) * 4096)
        #expect(given.givenBack > 500_000)
        #expect(given.free == 0)

        let keeping = try GatekeeperStore()
        try keeping.write("A", many)
        let kept = try await HistoryCleaner(path: keeping.path, rule: served).clean(through: .max)
        #expect(kept.givenBack == 0)
        #expect(kept.free > 500_000)
        #expect(kept.deleted == 20_000)
    }

    @Test("A cleanup waits while others are in a transaction, says so, and makes none of them fail")
    func others() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let efforts = Locked<[CleaningEffort]>([])
        func clean() async throws -> Int {
            try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(
                through: .max, of: nil, timeout: .milliseconds(300),
                progress: { progress in
                    if case .stepped(let effort) = progress { efforts.withLock { $0.append(effort) } }
                }, shouldStop: { false }
            ).deleted
        }
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let guest = try DatabaseQueue(path: store.path, configuration: configuration)
        try await guest.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Row.fetchAll(db, sql: "SELECT * FROM t")
        }
        let error = await #expect(throws: HistoryError.self) { _ = try await clean() }
        #expect(error?.code == .storeBusy)
        #expect(error?.message.contains("waits for transactions to end") == true)
        #expect(efforts.withLock { $0.last?.steps } == 0)
        #expect(efforts.withLock { $0.last?.refusals ?? 0 } > 0)
        // A commit in between would refuse this at once.
        try await guest.writeWithoutTransaction { db in
            try db.execute(sql: "UPDATE t SET id = id + 10")
            try db.execute(sql: "COMMIT")
        }
        #expect(try await clean() > 0)
        #expect(efforts.withLock { $0.last?.steps ?? 0 } > 0)
        #expect(efforts.withLock { $0.allSatisfy { $0.atRisk == 0 } })
    }

    @Test("A turn that is cut off while it waits for others is no failure")
    func cutOff() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], cleaning: .byDuration(.seconds(100)))
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        try state.cursors.save(Checkpoint(position: 1, movedAt: .now), of: "Main")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let guest = try DatabaseQueue(path: store.path, configuration: configuration)
        try await guest.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Row.fetchAll(db, sql: "SELECT * FROM t")
        }
        let events = EventLog()
        let turns = CleaningTurns(
            store: served, source: reader, state: state, reporter: events, stop: OneShotEvent())
        let turn = try await withThrowingTaskGroup(of: CleaningTurns.Turn.self) { group in
            group.addTask { try await turns.cleanIfDue() }
            group.cancelAll()
            return try await group.next()
        }
        #expect(turn == .failed)
        #expect(events.count("cleaningFailed") == 0, "\(events.all())")
        try guest.close()
        #expect(try await turns.cleanIfDue() == .taken)
        try state.close()
        try reader.close()
    }

    @Test("A notification that is counted while history is cleaned counts for the next turn")
    func countedMeanwhile() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], cleaning: .byNotification(times: 2))
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        try state.cursors.save(Checkpoint(position: 1, movedAt: .now), of: "Main")
        for _ in 1...2 { try state.countNotification() }
        let events = EventLog { event in
            if case .cleaned = event { try? state.countNotification() }
        }
        let turns = CleaningTurns(
            store: served, source: reader, state: state, reporter: events, stop: OneShotEvent())
        #expect(try await turns.cleanIfDue() == .taken)
        #expect(try store.history().isEmpty)
        #expect(try state.cleaning().notifications == 1)
        try state.close()
        try reader.close()
    }

    @Test("A notification is not used up by a turn that comes before all have had its transactions")
    func partialTurn() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], cleaning: .byNotification(times: 1))
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        for _ in 1...2 { try state.countNotification() }
        let turns = CleaningTurns(
            store: served, source: reader, state: state, reporter: SilentReporter(), stop: OneShotEvent())
        for position in [1, 2] {
            try state.cursors.save(Checkpoint(position: Int64(position), movedAt: .now), of: "Main")
            #expect(try await turns.cleanIfDue() == .taken)
        }
        #expect(try store.history().isEmpty)
        #expect(try await turns.cleanIfDue() == .notDue(nil))
        try state.close()
        try reader.close()
    }

    @Test("A turn is not used up by not being ready, and the timer survives a restart")
    func turns() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], cleaning: .byDuration(.seconds(100)))
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let reader = try HistoryReader(path: store.path)
        let state = try store.state()
        let turns = CleaningTurns(
            store: served, source: reader, state: state, reporter: SilentReporter(), stop: OneShotEvent())
        // Nobody has a place yet.
        #expect(try await turns.cleanIfDue() == .nothingToDelete)
        #expect(try state.cleaning().at == nil)
        // Somebody has, and has had nothing.
        try state.cursors.save(Checkpoint(position: 0, movedAt: .now), of: "Main")
        #expect(try await turns.cleanIfDue() == .nothingToDelete)
        #expect(try state.cleaning().at == nil)
        // It ends before all is deleted.
        try state.cursors.save(Checkpoint(position: 2, movedAt: .now), of: "Main")
        let stop = OneShotEvent()
        stop.signal()
        let ending = CleaningTurns(
            store: served, source: reader, state: state, reporter: SilentReporter(), stop: stop)
        #expect(try await ending.cleanIfDue() == .failed)
        #expect(try state.cleaning().at == nil)
        try state.close()
        try reader.close()
        try await store.serve(served)
        #expect(try store.history().isEmpty)

        try store.write("A", "INSERT INTO t VALUES (3, 3)", "INSERT INTO t VALUES (4, 4)")
        store.clock.advance(99_000)
        try await store.serve(served)
        #expect(try store.history() == [3, 4])
        store.clock.advance(1000)
        try await store.serve(served)
        #expect(try store.history().isEmpty)
        // Set back, the clock does not put it off.
        try store.write("A", "INSERT INTO t VALUES (5, 5)", "INSERT INTO t VALUES (6, 6)")
        store.clock.set(by: -1_000_000)
        try await store.serve(served)
        #expect(try store.history().isEmpty)
    }

    @Test("The first turn comes with the first pass after which something may go, not a period later")
    func firstTurn() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], cleaning: .byDuration(.seconds(3600)))
        try await store.serve(served)
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        try await store.serve(served, [Listener().observer()])
        #expect(try store.history().isEmpty)
        // That was a turn.
        try store.write("A", "INSERT INTO t VALUES (3, 3)")
        try await store.serve(served)
        #expect(try store.history() == [3])
    }

    @Test(
        "Nothing younger than the store keeps history goes, whatever the clocks of the writers",
        arguments: 1...20)
    func keep(seed: UInt64) async throws {
        var random = Seed(seed)
        let store = try GatekeeperStore()
        let (now, hour) = (store.clock.clock.wall().milliseconds, Int64(3_600_000))
        let ages = (0..<Int.random(in: 1...12, using: &random)).map { _ in
            Int64.random(in: -hour...(3 * hour), using: &random)
        }
        for (number, age) in ages.enumerated() {
            try store.write(nil, "INSERT INTO t VALUES (\(number), 0)")
            try store.write(
                nil, "UPDATE historyd_change SET origin = \(now - age) WHERE id = \(number + 1)")
        }
        try await store.serve(store.served(["Main"]))
        var served = store.served(["Main"])
        served.keep = .milliseconds(hour)
        // A time in the future says nothing: such a change is as old as the next one that has a time.
        let dated = ages.indices.filter { ages[$0] >= 0 }
        let young = dated.first { ages[$0] < hour }
        let old = (dated.last { $0 < young ?? ages.count } ?? -1) + 1
        let cleaning = ManualCleaning(served, stateFolder: store.folder.path)
        let report = try cleaning.report(force: Bool.random(using: &random))
        #expect(report.deleting == old, "seed \(seed)")
        #expect(report.young?.changes ?? 0 == ages.count - old, "seed \(seed)")
        #expect(try await cleaning.clean().outcome.deleted == old, "seed \(seed)")
        #expect(try store.history().count == ages.count - old, "seed \(seed)")
    }

    @Test("A turn whose history is too young comes when that is old enough, and not before")
    func tooYoung() async throws {
        let store = try GatekeeperStore()
        var served = store.served(["Main"], cleaning: .byDuration(.seconds(10)))
        served.keep = .seconds(100)
        let now = store.clock.clock.wall().milliseconds
        try store.write(
            nil, "INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE historyd_change SET origin = \(now)")
        try await store.serve(served)
        store.clock.advance(50_000)
        try await store.serve(served)
        #expect(try store.history() == [1, 2])
        store.clock.advance(51_000)
        try await store.serve(served)
        #expect(try store.history().isEmpty)
    }

    @Test("A writer whose clock is ten years ahead stops no cleaning, also where nobody else writes")
    func clockAhead() async throws {
        let store = try GatekeeperStore()
        var served = store.served(["Main"], cleaning: .byDuration(.seconds(1)))
        served.keep = .seconds(100)
        let future = store.clock.clock.wall().milliseconds + 10 * 365 * 86_400_000
        func commit(_ id: Int64) throws {
            try store.write(
                nil, "INSERT INTO t VALUES (\(id), 0)",
                "UPDATE historyd_change SET origin = \(future + id) WHERE id = \(id)")
        }
        try commit(1)
        try await store.serve(served)
        store.clock.advance(60_000)
        try commit(2)
        try await store.serve(served)
        #expect(try store.history() == [1, 2])
        store.clock.advance(41_000)
        try await store.serve(served)
        #expect(try store.history() == [2], "the first is older than 100 s by the daemon's own clock")
        store.clock.advance(61_000)
        try await store.serve(served)
        #expect(try store.history().isEmpty)
    }

    @Test("What stood at a position before a restore shows the age of nothing that stands there now")
    func sightingOfRestoredStore() throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let reader = try HistoryReader(path: store.path)
        let state = try store.state()
        let now = store.clock.clock.wall()
        func note(after seconds: Int64) throws -> Int64 {
            let time = HistoryTimestamp(milliseconds: now.milliseconds + seconds * 1000)
            return try state.sightings.note(reader.end(), at: time, keeping: .seconds(10), in: reader)
        }
        #expect(try note(after: 0) == 0)
        #expect(try note(after: 10) == 1)
        try store.write(nil, "UPDATE historyd_change SET origin = 7")
        #expect(try note(after: 20) == 0)
        #expect(try note(after: 25) == 0)
        try reader.close()
    }

    @Test("A change counts once, also one that was emptied before it is deleted", arguments: 1...10)
    func countedOnce(seed: UInt64) async throws {
        var random = Seed(seed)
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        let cleaning = ManualCleaning(served, stateFolder: store.folder.path)
        var written = 0
        var deleted = 0
        for _ in 0..<4 {
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                written += 1
                try store.write("A", "INSERT INTO t VALUES (\(written), 0)")
            }
            try await store.serve(served)
            let planned = try cleaning.report().deleting
            let outcome = try await cleaning.clean().outcome
            #expect(outcome.deleted == planned, "seed \(seed)")
            deleted += outcome.deleted
            #expect(deleted == written, "seed \(seed)")
        }
    }

    @Test("With no strategy, it is reported all the same that a consumer keeps history")
    func noStrategy() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try await store.serve(served)
        let now = store.clock.clock.wall().milliseconds
        try store.write(
            nil, "INSERT INTO t VALUES (2, 2)", "UPDATE historyd_change SET origin = \(now) WHERE id = 2")
        let (reader, state) = (try HistoryReader(path: store.path), try store.state())
        store.clock.advance(120_000)
        let (reporter, stop) = (EventList(), OneShotEvent())
        let turns = CleaningTurns(store: served, source: reader, state: state, reporter: reporter, stop: stop)
        #expect(turns.mayStandStill(unfinished: 1) && !turns.mayStandStill(unfinished: 0))
        async let end: Void = turns.run()
        turns.wakeUp.notify()
        await reporter.blocked.wait()
        stop.signal()
        turns.wakeUp.notify()
        try await end
        #expect(reporter.blockers.withLock { $0 } == ["Main"])
        #expect(try store.history().count == 2)
        try reader.close()
        try state.close()
    }

    @Test("A turn in which a held consumer kept everything comes as soon as that goes on")
    func heldConsumer() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main", "Other"], cleaning: .byDuration(.seconds(3600)))
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let refusing = Listener { _, _ in true }
        try await store.serveUntilHeld(served, [refusing.observer(for: "Main")])
        #expect(try store.history() == [1])
        try await store.serve(served, [Listener().observer(for: "Main")])
        #expect(try store.history().isEmpty)
    }

    @Test("byNotification counts what comes to the store once, however many consumers have it or rest")
    func notifications() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["One", "Two", "Three"], cleaning: .byNotification(times: 3))
        let hooks = [Listener().observer("p/all", for: "One")]
        for number in 1...2 {
            try store.write("A", "INSERT INTO t VALUES (\(number), 0)")
            try await store.serve(served, hooks)
            #expect(try store.history() == Array(1...Int64(number)))
        }
        try store.write("A", "INSERT INTO t VALUES (3, 0)")
        try await store.serve(served, hooks)
        #expect(try store.history().isEmpty)
    }
}

/// How often a turn is tried that came to nothing.
@Suite struct TurnPaceTests {
    @Test func theSecondTryComesAtOnceAndLaterOnesAreRare() {
        var pace = TurnPace()
        let pauses = (1...12).map { _ in pace.pause(after: .nothingToDelete) }
        #expect(Array(pauses.prefix(3)) == [.zero, .milliseconds(50), .milliseconds(100)])
        #expect(pauses.last == .seconds(30))
        #expect(pace.pause(after: .taken) == .zero)
        #expect(pace.pause(after: .nothingToDelete) == .zero)
    }

    @Test func aFailureIsNeverTriedAgainAtOnce() {
        var pace = TurnPace()
        #expect(pace.pause(after: .failed) >= .seconds(1))
        for _ in 1...10 { _ = pace.pause(after: .failed) }
        #expect(pace.pause(after: .failed) == .seconds(30))
    }
}

/// Waits for the report that a consumer holds back the cleaning.
private final class EventList: PipelineReporter {
    let blocked = OneShotEvent()
    let blockers = Locked<[String]>([])

    func report(_ event: PipelineEvent) {
        guard case .cleaningBlocked(let names) = event else { return }
        blockers.withLock { $0 = names }
        blocked.signal()
    }
}
