import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// A consumer's machine that an operator moves, without any I/O: whatever else happens, what is called afterwards is what
/// lies behind the position, once more, and says so.
@Suite struct MoveMachineTests {
    private static let store = StoreID.sample()
    private static let entity = Entity(shape: 1, name: "t", columns: [], key: .column("id"), preserved: [])

    /// A call of a hook that has succeeded.
    private struct Made: Hashable {
        let hook: String
        let numbers: [Int64]
        let delivery: String
    }

    private struct World {
        var seed: Seed
        var authors: [String?] = []
        let hooks: HookSet
        let consumer: Consumer
        var machine: ConsumerMachine
        /// What outlives a crash.
        var saved = (cursor: Int64(0), batchEnd: Int64(0), replay: Replay?.none)
        /// Since the last move, and ever.
        var made: Set<Made> = []
        var everMade: Set<Made> = []
        /// The deliveries since the last crash: without one, none is made twice.
        var remembered: Set<String> = []
        /// The last move, and what lay behind it then.
        var move: MovePlan?
        var moves: [MovePlan] = []

        func batch(after number: Int64, through last: Int64?) -> HistoryBatch {
            let newest = Int64(authors.count)
            // As of a store: what is read from a position on is the same again.
            let end = min(newest, last ?? .max, number + 1 + number * 7 % 4)
            guard end > number else {
                return HistoryBatch(transactions: [], end: number, isLast: last == nil, fingerprint: nil)
            }
            let transactions = (number + 1...end).map { number in
                HistoryTransaction(
                    token: HistoryToken(store: MoveMachineTests.store, number: number),
                    author: authors[Int(number) - 1], context: nil, processID: nil,
                    timestamp: HistoryTimestamp(milliseconds: 0),
                    changes: [
                        HistoryChange(
                            entity: MoveMachineTests.entity, operation: .insert,
                            objectID: ObjectID(columns: ["id"], values: [.integer(number)]))
                    ])
            }
            return HistoryBatch(
                transactions: transactions, end: end, isLast: end == newest && last == nil,
                fingerprint: "\(end)")
        }

        mutating func note(_ made: Made) {
            self.made.insert(made)
            #expect(remembered.insert(made.delivery).inserted, "\(made.delivery), \(seed)")
            everMade.insert(made)
        }

        /// The same as when the daemon is killed, and starts again.
        mutating func crash() {
            let batchEnd = saved.replay?.batchEnd(at: saved.cursor, saved: saved.batchEnd) ?? saved.batchEnd
            machine = ConsumerMachine(
                consumer, storeID: MoveMachineTests.store, cursor: saved.cursor, batchEnd: batchEnd,
                replay: saved.replay)
            remembered = []
        }

        mutating func moveSomewhere() {
            let to = Int64.random(in: 0...Int64(authors.count), using: &seed)
            let plan = MovePlan(from: machine.cursor, to: to, last: saved.replay, batchEnd: machine.batchEnd)
            if plan.isNothing { return }
            // What was made past the position is not made again, unless that is forgotten in a crash.
            let end = plan.replay.map { max($0.through, to) } ?? to
            let ahead = everMade.filter { made in
                let replay = Replay.parts(of: made.delivery).number
                return remembered.contains(made.delivery) && (replay == nil || replay == plan.replay?.number)
                    && made.numbers.allSatisfy { $0 > (replay == nil ? end : to) }
            }
            saved = (to, 0, plan.replay)
            machine = machine.moved(to: plan, expiry: nil, givenUp: GivenUpCalls())
            (move, made) = (plan, ahead)
            moves.append(plan)
        }
    }

    private final class Nothing: HookEndpoint {
        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome { ObserverOutcome(succeeded: 0) }
        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
    }

    @Test func whatComesAgainIsWhatLiesBehindAndSaysSo() {
        var seed = Seed(.random(in: 0...UInt64.max))
        for _ in 0..<600 {
            let endpoint = Nothing()
            var hooks = (0..<2).map { Hook(id: UUID(), name: "p/o\($0)", kind: .observer, endpoint: endpoint) }
            if Bool.random(using: &seed) {
                hooks.append(
                    Hook(id: UUID(), name: "p/b", kind: .observer, calls: .batch, endpoint: endpoint))
            }
            let mergers = (0..<Int.random(in: 0...1, using: &seed)).map {
                Hook(id: UUID(), name: "p/m\($0)", kind: .merge, endpoint: endpoint)
            }
            let rule = DeliveryRule(authors: ["Main", "Other"])
            let hasReplica = Bool.random(using: &seed)
            let consumer = Consumer(
                store: "s", author: "Main", rule: rule,
                contexts: hasReplica ? [ReplicaContext(name: "v", path: "/v", entities: nil)] : [])
            run(
                World(
                    seed: Seed(seed.next()), hooks: HookSet(observers: hooks, mergers: mergers, version: 0),
                    consumer: consumer, machine: ConsumerMachine(consumer, storeID: Self.store, cursor: 0)))
        }
    }

    private func run(_ start: World) {
        var world = start
        let seed = world.seed.description
        var event = ConsumerMachine.Event.proceed
        for round in 0..<2000 {
            let isCalm = round > 150
            if !isCalm {
                if Int.random(in: 0..<3, using: &world.seed) == 0 {
                    world.authors.append(["Main", "Other", nil].randomElement(using: &world.seed) ?? nil)
                }
                if Int.random(in: 0..<30, using: &world.seed) == 0 {
                    world.crash()
                    event = .proceed
                }
            }
            let around = ConsumerMachine.Dependencies(
                hooks: world.hooks, now: HistoryTimestamp(milliseconds: 0),
                isEnding: !isCalm && Int.random(in: 0..<20, using: &world.seed) == 0)
            let output = world.machine.handle(event, around)
            for effect in output.effects {
                switch effect {
                case .saveBatchEnd(let end): world.saved.batchEnd = end
                case .save(let checkpoint), .saveLater(let checkpoint):
                    world.saved.cursor = checkpoint.position
                default: break
                }
            }
            switch outcome(of: output.next, &world, isCalm: isCalm) {
            case .event(let next): event = next
            case .stepIsOver(let isIdle):
                event = .proceed
                if !isCalm, Int.random(in: 0..<8, using: &world.seed) == 0 { world.moveSomewhere() }
                // A commit that came while it was at work wakes it again.
                if isCalm, isIdle, world.machine.cursor == Int64(world.authors.count) {
                    check(world, seed)
                    return
                }
            }
        }
        Issue.record("It never came to the end: \(seed), at \(world.machine.cursor) of \(world.authors.count)")
    }

    private enum Outcome {
        case event(ConsumerMachine.Event)
        case stepIsOver(isIdle: Bool)
    }

    private func outcome(of next: ConsumerMachine.Next, _ world: inout World, isCalm: Bool) -> Outcome {
        let fails = !isCalm && Int.random(in: 0..<4, using: &world.seed) == 0
        switch next {
        case .fetch(let number, let last): return .event(.fetched(world.batch(after: number, through: last)))
        case .stage(let batch, _):
            #expect(world.machine.replay == nil, "contexts have had what is repeated: \(world.seed)")
            return .event(.staged(batch))
        case .read: return .event(.proceed)
        case .observe(let run):
            let count = fails ? Int.random(in: 0..<run.calls.count, using: &world.seed) : run.calls.count
            for call in run.calls.prefix(count) {
                note(call, [call.transaction.number], &world)
            }
            let failure = HookFailure(.refused, "no")
            return .event(.observed(ObserverOutcome(succeeded: count, failure: fails ? failure : nil)))
        case .merge(_, let call):
            if fails { return .event(.merged(.failure(HookFailure(.refused, "no")))) }
            note(call, call.transactions.map(\.number), &world)
            return .event(.merged(.success(.goOn)))
        case .sendExpiry: return .event(.expirySent(nil))
        case .findFingerprint(let number, _): return .event(.found(fingerprint: "\(number)"))
        case .mergeIntoContexts: return .event(.mergedIntoContexts(retryAfter: nil))
        case .catchUpContexts: return .event(.contextsCaughtUp)
        case .proceed, .retry: return .stepIsOver(isIdle: false)
        case .idle: return .stepIsOver(isIdle: true)
        }
    }

    private func note(_ call: ObserverCall, _ numbers: [Int64], _ world: inout World) {
        check(call.parameters, call.header)
        world.note(Made(hook: call.header.hook, numbers: numbers, delivery: call.header.delivery))
    }

    private func note(_ call: MergeCall, _ numbers: [Int64], _ world: inout World) {
        check(call.parameters, call.header)
        world.note(Made(hook: call.header.hook, numbers: numbers, delivery: call.header.delivery))
    }

    /// The text says the same as the header.
    private func check(_ parameters: [UInt8], _ header: HookCallHeader) {
        let text = String(decoding: parameters, as: UTF8.self)
        #expect(text.contains("\"delivery\":\"\(header.delivery)\""), "\(text)")
        #expect(
            text.contains("\"replay\":true") == (Replay.parts(of: header.delivery).number != nil), "\(text)")
    }

    private func check(_ world: World, _ seed: String) {
        // One delivery is always the same call.
        #expect(
            Dictionary(grouping: world.everMade, by: \.delivery).values.allSatisfy { $0.count == 1 }, "\(seed)")
        // A replay is of what the consumer had been past, and of nothing else.
        for made in world.everMade {
            guard let number = Replay.parts(of: made.delivery).number else { continue }
            let moves = world.moves.filter { $0.replay?.number == number }
            let isMeant = moves.contains { move in
                made.numbers.allSatisfy { $0 > move.to && $0 <= move.replay?.through ?? 0 }
            }
            #expect(isMeant, "\(made): \(seed)")
        }
        let first = world.move?.to ?? 0
        let replay = world.move?.replay
        let relevant = world.authors.indices.map { Int64($0 + 1) }
            .filter { $0 > first && world.authors[Int($0) - 1] != "Main" }
        for hook in world.hooks.observers + world.hooks.mergers {
            let calls = world.made.filter { $0.hook == hook.name }
            // Each once more: what is made again after a crash has the same delivery.
            var seen: Set<String> = []
            let distinct = calls.filter { seen.insert($0.delivery).inserted }
            let numbers = distinct.flatMap(\.numbers)
            // Of a call for a batch, a part may come again in another one.
            let isForBatch = hook.kind == .merge || hook.calls == .batch
            #expect(
                isForBatch ? Set(numbers) == Set(relevant) : numbers.sorted() == relevant,
                "\(hook.name) had \(numbers) of \(relevant) after \(String(describing: world.move)): \(seed)")
            for call in distinct {
                let isRepeated = call.numbers.allSatisfy { $0 <= replay?.through ?? 0 }
                #expect(
                    Replay.parts(of: call.delivery).number == (isRepeated ? replay?.number : nil),
                    "\(call): \(seed)")
            }
        }
    }
}

/// What tells a replay from the first delivery, and what a move makes of it.
@Suite struct MovePlanTests {
    @Test(
        arguments: [
            ("s:5/Main/p/h/0", "s:5/Main/p/h/0", nil), ("s:5/Main/p/h/0/replay-12", "s:5/Main/p/h/0", 12),
            ("s:5/Main/p/replay-1/0", "s:5/Main/p/replay-1/0", nil), ("/replay-", "/replay-", nil),
            ("s:5/Main/p/h/0/replay-1/replay-2", "s:5/Main/p/h/0/replay-1", 2), ("", "", nil),
            ("x/replay-99999999999999999999", "x/replay-99999999999999999999", nil),
        ] as [(String, String, Int64?)])
    func deliveries(_ delivery: String, _ name: String, _ number: Int64?) {
        let parts = Replay.parts(of: delivery)
        #expect(parts.name == name)
        #expect(parts.number == number)
    }

    @Test func aMoveBackRepeatsWhatTheConsumerHadBeenPast() {
        let first = MovePlan(from: 70, to: 50, last: nil, batchEnd: 75)
        #expect(first.replay == Replay(number: 1, through: 70, batchEnd: 75))
        // While it is repeated, it is moved again.
        let second = MovePlan(from: 60, to: 40, last: first.replay, batchEnd: 65)
        #expect(second.replay == Replay(number: 2, through: 70, batchEnd: 75))
        let forward = MovePlan(from: 60, to: 65, last: first.replay, batchEnd: 62)
        #expect(forward.replay == first.replay)
        // Over.
        let third = MovePlan(from: 90, to: 80, last: second.replay, batchEnd: 90)
        #expect(third.replay == Replay(number: 3, through: 90, batchEnd: 0))
        #expect(MovePlan(from: 5, to: 5, last: nil, batchEnd: 0).isNothing)
    }

    @Test func theBatchThatWasInProgressComesAfterwards() {
        let replay = Replay(number: 1, through: 70, batchEnd: 75)
        #expect(replay.batchEnd(at: 60, saved: 65) == 65)
        #expect(replay.batchEnd(at: 70, saved: 70) == 75)
        #expect(replay.batchEnd(at: 72, saved: 80) == 80)
    }

    @Test func forwardMustBeMeant() {
        let plan = MovePlan(from: 5, to: 9, last: nil, batchEnd: 0)
        #expect(throws: MoveRefused.self) { try plan.check(skips: false, of: "Main", in: .sample()) }
        #expect(throws: Never.self) { try plan.check(skips: true, of: "Main", in: .sample()) }
        let back = MovePlan(from: 9, to: 5, last: nil, batchEnd: 0)
        #expect(throws: Never.self) { try back.check(skips: false, of: "Main", in: .sample()) }
    }

    /// A step of a cleanup that was planned before a move deletes nothing after it.
    @Test func aCleanupThatWasPlannedBeforeAMoveStops() {
        let gate = CleaningGate()
        let before = gate.pass
        #expect(gate.step(before) { 1 } == 1)
        #expect(gate.move { 2 } == 2)
        #expect(gate.step(before) { 1 } == nil)
        #expect(gate.step(gate.pass) { 1 } == 1)
    }
}
