import TestSupport
import Testing

@testable import PersistentHistory

/// Consumers that are not woken by what is of no concern to them.
@Suite struct IdleConsumersTests {
    private static let entities = (0..<4).map { number in
        Entity(shape: Int64(number), name: "e\(number)", columns: [], key: .rowid, preserved: [])
    }

    private static func place(_ number: Int64) -> Checkpoint {
        Checkpoint(position: number, fingerprint: "\(number)", movedAt: HistoryTimestamp(milliseconds: 0))
    }

    private static func batch(_ number: Int64, _ entities: [Entity], isLast: Bool = true) -> HistoryBatch {
        let changes = entities.map { entity in
            HistoryChange(
                entity: entity, operation: .insert,
                objectID: ObjectID(columns: ["rowid"], values: [.integer(number)], isRowID: true),
                changedProperties: [], tombstone: nil)
        }
        let transaction = HistoryTransaction(
            token: HistoryToken(store: StoreID.sample(), number: number), author: nil, context: nil,
            processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: changes)
        return HistoryBatch(transactions: [transaction], end: number, isLast: isLast, fingerprint: "\(number)")
    }

    /// A consumer as the session and its runner treat it.
    private struct Consumer {
        let name: String
        var interest: Set<BinaryText>
        var hooks: Int
        var number: Int64 = 0
        /// Commits that it has gone through by itself.
        var seen: Set<Int64> = []
    }

    /// Whatever comes in whatever order: who goes on does so before the first commit of concern to him, so that
    /// everybody goes through all of those, and nobody is moved while others' hooks are in force.
    @Test func nobodyMissesWhatConcernsHim() {
        var generator = Seed(.random(in: 0...UInt64.max))
        let seed = generator.description
        var hooks = 0
        var consumers = (0..<6).map { number in
            Consumer(name: "c\(number)", interest: [], hooks: 0)
        }
        let idle = IdleConsumers(consumers.map(\.name), at: Self.place(0))
        var commits: [(number: Int64, entities: Set<BinaryText>)] = []
        var rung = Set(consumers.map(\.name))
        var moved = 0
        for _ in 0..<3000 {
            let who = Int.random(in: consumers.indices, using: &generator)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<4:
                let entities = Self.entities.filter { _ in Int.random(in: 0..<4, using: &generator) == 0 }
                let number = Int64(commits.count + 1)
                let isLast = Int.random(in: 0..<10, using: &generator) > 0
                let isHeld = Int.random(in: 0..<20, using: &generator) == 0
                commits.append((number, Set(names: entities.map(\.name))))
                let outcome = idle.pass(
                    Self.batch(number, entities, isLast: isLast), to: Self.place(number),
                    hooks: isHeld ? nil : hooks)
                rung.formUnion(outcome.woken)
                moved += outcome.moved
            case 4:
                hooks += 1
            default:
                // A pass: mostly of one who was rung for.
                guard rung.contains(consumers[who].name) || who == 0 else { continue }
                rung.remove(consumers[who].name)
                if let place = idle.wake(consumers[who].name) {
                    #expect(place.position >= consumers[who].number, "\(seed)")
                    for commit in commits
                    where commit.number > consumers[who].number && commit.number <= place.position {
                        #expect(commit.entities.isDisjoint(with: consumers[who].interest), "\(seed)")
                    }
                    consumers[who].number = place.position
                }
                consumers[who].hooks = hooks
                consumers[who].interest = Set(
                    names: Self.entities.map(\.name).filter { _ in Int.random(in: 0..<3, using: &generator) == 0
                    })
                for commit in commits where commit.number > consumers[who].number {
                    consumers[who].seen.insert(commit.number)
                    consumers[who].number = commit.number
                }
                idle.add(
                    consumers[who].name, at: consumers[who].number,
                    until: HookInterests(entities: consumers[who].interest),
                    hooks: consumers[who].hooks)
            }
            for (consumer, cursor) in idle.checkpoints {
                #expect(
                    cursor.position >= consumers.first { consumer == BinaryText($0.name) }?.number ?? 0,
                    "\(seed)")
                #expect(cursor.fingerprint == "\(cursor.position)", "\(seed)")
            }
        }
        // Some were in fact moved without being woken, and some had to go on.
        #expect(moved > 0, "\(seed)")
        #expect(consumers.allSatisfy { !$0.seen.isEmpty }, "\(seed)")
        // Who has been rung for nothing is at the end.
        for consumer in consumers where !rung.contains(consumer.name) {
            let cursor = idle.checkpoints[consumer.name]?.position ?? consumer.number
            #expect(cursor == Int64(commits.count), "\(seed)")
        }
    }

    /// A commit that came while it passed must not be slept over.
    @Test func nobodyRestsBehindTheEnd() {
        let idle = IdleConsumers(["a"], at: Self.place(0))
        #expect(idle.pass(Self.batch(1, [Self.entities[0]]), to: Self.place(1), hooks: 0).woken == ["a"])
        idle.add("a", at: 0, until: HookInterests(entities: []), hooks: 0)
        #expect(!idle.contains("a"))
        idle.add("a", at: 1, until: HookInterests(entities: []), hooks: 0)
        #expect(idle.contains("a"))
        let outcome = idle.pass(Self.batch(2, [Self.entities[0]]), to: Self.place(2), hooks: 0)
        #expect(outcome.woken.isEmpty && outcome.moved == 1)
        #expect(idle.checkpoints["a"]?.position == 2)
        // The hooks are others now.
        #expect(idle.pass(Self.batch(3, []), to: Self.place(3), hooks: 1).woken == ["a"])
        #expect(idle.wake("a")?.position == 2)
    }
}
