import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// A consumer's machine without any I/O: whatever comes in whatever order, against a simple model.
@Suite struct ConsumerMachineTests {
    private static let store = StoreID.sample()
    private static let entity = Entity(
        shape: 1, name: "t", columns: [], key: .column("id"), preserved: [])

    /// A store, its consumer's saved state, and what the hooks have had.
    private struct World {
        var generator: Seed
        /// The author of each transaction, from number 1 on.
        var authors: [String?] = []
        let hooks: HookSet
        let consumer: Consumer
        var machine: ConsumerMachine
        /// What outlives a crash.
        var saved = (cursor: Int64(0), batchEnd: Int64(0), expiry: Expiry?.none)
        /// By hook: what succeeded, or was given up, in this run, and in all.
        var hadInRun: [String: [Int64]] = [:]
        var hadEver: [String: Set<Int64>] = [:]
        var mergedEver: Set<Int64> = []
        var toldOfExpiry: [String: Int] = [:]
        /// By their deliveries.
        var deadLetters: [DeadLetter] = []
        var isEnding = false

        func isRelevant(_ number: Int64) -> Bool { authors[Int(number) - 1] != "Main" }
        func takesOwn(_ number: Int64) -> Bool {
            !isRelevant(number) && !hooks.mergers.isEmpty && !consumer.contexts.isEmpty
        }

        /// Some are large: of three changes in two parts.
        func isLarge(_ number: Int64) -> Bool { number % 5 == 0 }

        func transaction(_ number: Int64) -> HistoryTransaction {
            if isLarge(number) {
                var outline = TransactionOutline(partSize: 2)
                for _ in 0..<3 { outline.add(number, ConsumerMachineTests.entity, .insert) }
                return HistoryTransaction(
                    token: HistoryToken(store: ConsumerMachineTests.store, number: number),
                    of: Origin(
                        Authorship(authors[Int(number) - 1], nil), timestamp: HistoryTimestamp(milliseconds: 0)),
                    outline: outline)
            }
            return HistoryTransaction(
                token: HistoryToken(store: ConsumerMachineTests.store, number: number),
                author: authors[Int(number) - 1], context: nil, processID: nil,
                timestamp: HistoryTimestamp(milliseconds: 0),
                changes: [
                    HistoryChange(
                        entity: ConsumerMachineTests.entity, operation: .insert,
                        objectID: ObjectID(columns: ["id"], values: [.integer(number)]))
                ])
        }

        mutating func batch(after number: Int64, through last: Int64?) -> HistoryBatch {
            let newest = Int64(authors.count)
            var end = min(newest, last ?? .max, number + Int64.random(in: 1...4, using: &generator))
            // A large one is alone.
            if end > number + 1, let large = (number + 1...end).first(where: isLarge) {
                end = max(number + 1, large - 1)
            }
            guard end > number else {
                return HistoryBatch(transactions: [], end: number, isLast: last == nil, fingerprint: nil)
            }
            return HistoryBatch(
                transactions: (number + 1...end).map(transaction), end: end,
                isLast: end == newest && last == nil, fingerprint: "\(end)")
        }
    }

    private final class Nothing: HookEndpoint {
        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome { ObserverOutcome(succeeded: 0) }
        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
    }

    private static func hook(_ name: String, _ kind: Hook.Kind, _ endpoint: Nothing, skips: Bool = false)
        -> Hook
    {
        Hook(
            id: UUID(), name: name, kind: kind, endpoint: endpoint,
            policy: FailurePolicy(attempts: 2, afterLastAttempt: skips ? .skip : .hold))
    }

    @Test func nothingIsLostOrSavedTooSoonWhateverHappens() {
        var generator = Seed(.random(in: 0...UInt64.max))
        for _ in 0..<400 {
            let (one, two) = (Nothing(), Nothing())
            var observers = [Self.hook("a", .observer, one), Self.hook("b", .observer, one, skips: true)]
            if Bool.random(using: &generator) { observers.append(Self.hook("c", .observer, two)) }
            let mergers = (0..<Int.random(in: 0...2, using: &generator)).map {
                Self.hook("m\($0)", .merge, two, skips: $0 == 1)
            }
            let rule = DeliveryRule(authors: ["Main", "Other"])
            let hasReplica = Bool.random(using: &generator)
            let consumer = Consumer(
                store: "s", author: "Main", rule: rule,
                contexts: hasReplica ? [ReplicaContext(name: "v", path: "/v", entities: nil)] : [])
            let world = World(
                generator: Seed(generator.next()),
                hooks: HookSet(observers: observers, mergers: mergers, version: 0), consumer: consumer,
                machine: ConsumerMachine(consumer, storeID: Self.store, cursor: 0))
            run(world)
        }
    }

    private func run(_ start: World) {
        var world = start
        let seed = world.generator.description
        var event = ConsumerMachine.Event.proceed
        var isCalm = false
        for round in 0..<2000 {
            // What comes at any time.
            isCalm = round > 120
            if !isCalm {
                if Int.random(in: 0..<3, using: &world.generator) == 0 {
                    world.authors.append(["Main", "Other", nil].randomElement(using: &world.generator) ?? nil)
                }
                if Int.random(in: 0..<40, using: &world.generator) == 0 { event = crash(&world) }
            }
            world.isEnding = !isCalm && Int.random(in: 0..<30, using: &world.generator) == 0
            let around = ConsumerMachine.Dependencies(
                hooks: world.hooks, now: HistoryTimestamp(milliseconds: 0), isEnding: world.isEnding)
            let before = world.machine
            let output = world.machine.handle(event, around)
            if !isCalm, !output.effects.isEmpty, Int.random(in: 0..<20, using: &world.generator) == 0 {
                // The state could not be saved: the event comes again.
                world.machine = before
                continue
            }
            perform(output.effects, &world, seed)
            guard let next = outcome(of: output.next, &world, isCalm: isCalm) else {
                #expect(world.machine.cursor == Int64(world.authors.count), "\(seed)")
                #expect(world.machine.expiry == nil, "\(seed)")
                return
            }
            event = next
        }
        Issue.record("It never came to the end: \(seed), at \(world.machine.cursor) of \(world.authors.count)")
    }

    /// The daemon dies: what was saved remains, and sometimes the consumer's place is lost as well.
    private func crash(_ world: inout World) -> ConsumerMachine.Event {
        world.hadInRun = [:]
        if Int.random(in: 0..<4, using: &world.generator) == 0 {
            let newest = Int64(world.authors.count)
            let token = HistoryToken(store: Self.store, number: newest)
            world.saved = (newest, 0, Expiry(reason: .expired, lost: nil, after: token))
            for hook in world.hooks.observers + world.hooks.mergers {
                world.hadEver[hook.name, default: []].formUnion(newest > 0 ? Set(1...newest) : [])
            }
            world.mergedEver.formUnion(newest > 0 ? Set(1...newest) : [])
            world.toldOfExpiry = [:]
        }
        world.machine = ConsumerMachine(
            world.consumer, storeID: Self.store, cursor: world.saved.cursor,
            batchEnd: world.saved.batchEnd, expiry: world.saved.expiry,
            givenUp: GivenUpCalls(world.deadLetters.map { ($0.delivery, $0.call) }))
        return .proceed
    }

    private func perform(_ effects: [ConsumerMachine.Effect], _ world: inout World, _ seed: String) {
        for effect in effects {
            switch effect {
            case .saveBatchEnd(let number): world.saved.batchEnd = number
            case .save(let cursor), .saveLater(let cursor):
                #expect(cursor.position >= world.saved.cursor, "it never goes back: \(seed)")
                guard cursor.position > world.saved.cursor else { continue }
                // A checkpoint is never ahead of what was done.
                for number in world.saved.cursor + 1...cursor.position where world.isRelevant(number) {
                    for hook in world.hooks.observers {
                        #expect(world.hadEver[hook.name]?.contains(number) == true, "\(number): \(seed)")
                    }
                    let isMerged = world.consumer.contexts.isEmpty || world.mergedEver.contains(number)
                    #expect(isMerged, "\(number): \(seed)")
                }
                // What the consumer wrote itself, perhaps in a merge hook, reaches its contexts as well.
                for number in world.saved.cursor + 1...cursor.position where world.takesOwn(number) {
                    #expect(world.mergedEver.contains(number), "own \(number): \(seed)")
                }
                world.saved.cursor = cursor.position
            case .keep(let letter):
                #expect(
                    !world.deadLetters.contains { $0.delivery == letter.delivery }, "given up twice: \(seed)")
                world.deadLetters.append(letter)
                // The call is given up: the consumer goes on without it.
                if letter.delivery.contains(">") {
                    world.toldOfExpiry[letter.hook, default: 0] += 1
                } else if let number = Int64(letter.delivery.split(separator: "/")[0].split(separator: ":")[1])
                {
                    // The transaction is done with its last part.
                    let isMerger = world.hooks.mergers.contains { $0.name == letter.hook }
                    let isFirstPart = letter.delivery.hasSuffix(isMerger ? "/0" : ".0")
                    if world.isLarge(number), isFirstPart { continue }
                    note(number, of: letter.hook, &world, seed)
                }
            case .removeExpiry:
                for hook in world.hooks.observers + world.hooks.mergers {
                    #expect(world.toldOfExpiry[hook.name] ?? 0 >= 1, "\(seed)")
                }
                world.saved.expiry = nil
            case .saveUnmerged, .saveCaughtUpUntilNow, .report: break
            }
        }
    }

    private func note(_ number: Int64, of hook: String, _ world: inout World, _ seed: String) {
        let last = world.hadInRun[hook]?.last ?? 0
        // In order, and in one run no more than once.
        if world.hooks.observers.contains(where: { $0.name == hook }) {
            #expect(number > last, "\(hook) had \(last), then \(number): \(seed)")
        }
        world.hadInRun[hook, default: []].append(number)
        world.hadEver[hook, default: []].insert(number)
    }

    /// - Returns: Nil where it is idle, and nothing is to come.
    private func outcome(of next: ConsumerMachine.Next, _ world: inout World, isCalm: Bool)
        -> ConsumerMachine.Event?
    {
        let seed = world.generator.description
        let fails = !isCalm && Int.random(in: 0..<3, using: &world.generator) == 0
        let failure = HookFailure(Bool.random(using: &world.generator) ? .refused : .cancelled, "no")
        switch next {
        case .fetch(let number, let last): return .fetched(world.batch(after: number, through: last))
        case .stage(let batch, _): return .staged(batch)
        case .read(let unread):
            #expect(unread.count == (unread.part?.isLast == true ? 1 : 2), "\(seed)")
            let change = HistoryChange(
                entity: Self.entity, operation: .insert,
                objectID: ObjectID(columns: ["id"], values: [.integer(unread.transaction.number)]))
            return .read(Array(repeating: change, count: unread.count))
        case .observe(let run):
            #expect(!world.isEnding, "nothing is begun: \(seed)")
            let count = fails ? Int.random(in: 0..<run.calls.count, using: &world.generator) : run.calls.count
            for call in run.calls.prefix(count) {
                #expect(!call.changes.isEmpty, "\(seed)")
                guard call.part?.isLast ?? true else { continue }
                #expect(world.isRelevant(call.transaction.number), "\(seed)")
                note(call.transaction.number, of: call.header.hook, &world, seed)
            }
            let isSilent = Bool.random(using: &world.generator)
            return .observed(ObserverOutcome(succeeded: count, failure: fails && !isSilent ? failure : nil))
        case .merge(let hook, let call):
            for transaction in call.transactions {
                for observer in world.hooks.observers {
                    let had = world.hadEver[observer.name]?.contains(transaction.number) == true
                    #expect(had, "observers finish before merge hooks start: \(seed)")
                }
            }
            if fails { return .merged(.failure(failure)) }
            #expect(call.transactions.allSatisfy { !$0.changes.isEmpty }, "\(seed)")
            let verdict: MergeResult.Verdict = Bool.random(using: &world.generator) ? .goOn : .finish
            if let last = call.transactions.last, call.part?.isLast ?? true || verdict == .finish {
                note(last.number, of: hook.name, &world, seed)
            }
            return .merged(.success(MergeResult(verdict)))
        case .sendExpiry(let hook, _):
            if fails { return .expirySent(failure) }
            world.toldOfExpiry[hook.name, default: 0] += 1
            return .expirySent(nil)
        case .findFingerprint(let number, _): return .found(fingerprint: "\(number)")
        case .mergeIntoContexts(let merge, _):
            if fails { return .mergedIntoContexts(retryAfter: .milliseconds(1)) }
            world.mergedEver.formUnion(merge.transactions.map(\.number))
            world.mergedEver.formUnion(merge.toMerge.map(\.number))
            return .mergedIntoContexts(retryAfter: nil)
        case .catchUpContexts: return .contextsCaughtUp
        case .proceed, .retry: return .proceed
        // Where there is more, its commit wakes the consumer.
        case .idle: return isCalm && world.machine.cursor == Int64(world.authors.count) ? nil : .proceed
        }
    }
}
