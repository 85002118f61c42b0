import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Random writers, consumers that come, lag, die and return, a cleaner, and a clock that is moved by
/// hand and set by others. What the daemon did is compared with what a model says it may do.
@Suite(.timeLimit(.minutes(60))) struct GatekeeperPropertyTests {
    private static let mirroring = "NSCloudKitMirroringDelegate.import"
    private static let maximum: Int64 = 10_000

    @Test(
        "Nothing is deleted that somebody live has not had, nothing kept that all have had, and expiry is told",
        arguments: [1] + [UInt64.random(in: 4...1_000_000)])
    func gatekeeper(_ number: UInt64) async throws {
        var seed = Seed(number)
        print("gatekeeper: \(seed)")
        let world = try World()
        for _ in 0..<120 {
            switch Int.random(in: 0..<100, using: &seed) {
            case 0..<40: try world.write(using: &seed)
            case 40..<60: try await world.serve(using: &seed)
            case 60..<70: try await world.listen(using: &seed)
            case 70..<88: try await world.clean()
            case 88..<93: world.store.clock.set(by: Int64.random(in: -40_000...40_000, using: &seed))
            case 93..<96: world.changeConsumers(using: &seed)
            default: world.store.clock.advance(Int64.random(in: 0...20_000, using: &seed))
            }
        }
        try await world.finish()
        print("gatekeeper: \(seed): \(world.summary)")
    }

    /// The system, and what is known of it from outside.
    private final class World {
        let store: GatekeeperStore
        private let authors = ["A", "B", "Batch", nil, GatekeeperPropertyTests.mirroring]
        private var consumers = ["A", "B"]
        private var broken: Set<String> = []
        private var written: [(number: Int64, author: String?)] = []
        private var listeners: [String: Listener] = [:]
        private let failing = Locked<Set<String>>([])
        /// How long each consumer could have moved since it moved last, or became late.
        private var idle: [String: Int64] = [:]
        private let feed = FeedReader(FeedID(consumer: "A", context: "live"))
        /// History was deleted that the feed has not had, and it was not told yet.
        private var isFeedPassed = false
        private var deleted = 0
        private var passed = 0

        /// What the run came across.
        var summary: String {
            let told = listeners.values.flatMap { $0.all() }.count { !$0.hasPrefix("insert") }
            return
                "\(written.count) written, \(deleted) deleted, \(passed) passed by, \(told) told of expiry; the feed had \(feed.had.count), was told of \(feed.expiries) expiries"
        }

        private let rule = DeliveryRule(authors: ["A", "B", "C", "Batch"])

        init() throws {
            store = try GatekeeperStore()
            for consumer in ["A", "B", "C"] {
                listeners[consumer] = Listener { [failing] _, _ in failing.withLock { $0.contains(consumer) } }
            }
        }

        private var served: ServedStore {
            store.served(
                consumers, contexts: ["C": [store.replica()]],
                feeds: ["A": [FeedContext(name: "live", window: 3)]], rule: rule,
                maximumDuration: .milliseconds(GatekeeperPropertyTests.maximum))
        }

        func write(using seed: inout Seed) throws {
            let author = authors[Int.random(in: 0..<authors.count, using: &seed)]
            let rows = Int.random(in: 1...4, using: &seed)
            try store.write(
                author, String(repeating: "INSERT INTO t (n) VALUES (1);", count: rows))
            let known = written.last?.number ?? 0
            written += (known + 1...known + Int64(rows)).map { ($0, author) }
        }

        /// One of three may come and go, and each may have a hook that fails.
        func changeConsumers(using seed: inout Seed) {
            consumers = Bool.random(using: &seed) ? ["A", "B", "C"] : ["A", "B"]
        }

        func serve(using seed: inout Seed) async throws {
            for consumer in consumers where Int.random(in: 0..<4, using: &seed) == 0 {
                broken.formSymmetricDifference([consumer])
            }
            try await serve(for: Int64.random(in: 0...6_000, using: &seed))
        }

        private func serve(for milliseconds: Int64) async throws {
            failing.withLock { [broken = self.broken] in $0 = broken }
            let before = try places()
            let stop = OneShotEvent()
            let held = Locked<Set<String>>([])
            let (store, broken) = (self.store, self.broken)
            // Time passes while the store is served. A hook that is held ends the run, when all that
            // fail have come to it.
            let events = EventLog { [clock = self.store.clock] event in
                switch event {
                case .storeOpened: clock.advance(milliseconds)
                case .hookHeld(let consumer, _, _, _, _, _):
                    let isLast = held.withLock {
                        $0.insert(consumer)
                        return $0.isSuperset(of: broken)
                    }
                    if isLast { stop.signal() }
                default: break
                }
            }
            let hooks = listeners.map { $1.observer("p/\($0)", for: $0) }
            let newest = written.last?.number ?? 0
            let runner = store.runner(served, hooks, events, stop: stop)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await runner.runOnce()
                    stop.signal()
                }
                group.addTask {
                    // Some that fail may have nothing to fail with.
                    while !stop.isSignaled, !broken.isEmpty {
                        try await Task.sleep(for: .milliseconds(2))
                        let done = held.withLock { $0 }
                        let places = try? store.cursors()
                        let waiting = broken.filter { !done.contains($0) && (places?[$0] ?? newest) < newest }
                        let others = (places ?? [:]).allSatisfy {
                            broken.contains($0.key) || $0.value >= newest
                        }
                        if waiting.isEmpty, others { stop.signal() }
                    }
                }
                try await group.waitForAll()
            }
            let after = try places()
            for consumer in consumers {
                let hasMoved = before[consumer] != after[consumer]
                idle[consumer] =
                    hasMoved || after[consumer] == newest ? 0 : (idle[consumer] ?? 0) + milliseconds
            }
            let name = feed.feed.description
            idle[name] = try store.feed(feed.feed) == newest ? 0 : (idle[name] ?? 0) + milliseconds
        }

        /// A program comes to the feed, takes some and acknowledges some of it, and goes.
        func listen(using seed: inout Seed) async throws {
            guard try store.feed(feed.feed) != nil else { return }
            let before = feed.acknowledged
            let expiries = feed.expiries
            let acknowledges = Int.random(in: 0...3, using: &seed)
            var random = seed
            try await feed.connect(
                served, store.folder.path, most: Int.random(in: 0...12, using: &seed),
                acknowledges: { _ in Int.random(in: 0...3, using: &random) <= acknowledges })
            seed = random
            if feed.expiries > expiries { isFeedPassed = false }
            if feed.acknowledged != before { idle[feed.feed.description] = 0 }
        }

        private func places() throws -> [String: Int64] { (try? store.cursors()) ?? [:] }

        func clean() async throws {
            let before = try places().filter { consumers.contains($0.key) }
            let history = Set(try store.history())
            let cleaning = ManualCleaning(served, stateFolder: store.folder.path)
            let plan = try cleaning.report()
            let (report, outcome) = try await cleaning.clean()
            #expect(plan == report)
            let left = Set(try store.history())
            let gone = history.subtracting(left)
            let authors = Dictionary(uniqueKeysWithValues: written.map { ($0.number, $0.author) })
            #expect(report.deleting == gone.count)

            deleted += gone.count
            passed += report.passedBy.count
            // Whoever is passed by has stood still for too long.
            for holder in report.passedBy {
                #expect(idle[holder.name] ?? 0 > GatekeeperPropertyTests.maximum, "\(holder)")
                #expect(holder.standing > .milliseconds(GatekeeperPropertyTests.maximum))
            }
            let passedBy = Set(report.passedBy.map(\.name))
            if passedBy.contains(feed.feed.description) { isFeedPassed = true }
            for number in gone {
                #expect(
                    isFeedPassed || number <= feed.acknowledged
                        || !rule.delivers(authors[number] ?? nil, to: feed.feed.consumer),
                    "\(number) was deleted before the feed had it, which is at \(feed.acknowledged)")
                #expect(authors[number] != .some(.some(GatekeeperPropertyTests.mirroring)))
                for consumer in consumers where !passedBy.contains(consumer) {
                    #expect(
                        (before[consumer] ?? -1) >= number, "\(number) was deleted before \(consumer) had it")
                }
            }
            // What all have had is gone, but for a number that must not be given again.
            if before.count == consumers.count {
                var had = before.filter { !passedBy.contains($0.key) }.values.min() ?? written.last?.number ?? 0
                if !isFeedPassed, let place = try store.feed(feed.feed) { had = min(had, place) }
                let kept = left.filter {
                    $0 <= had && authors[$0] != .some(.some(GatekeeperPropertyTests.mirroring))
                }
                #expect(kept.isEmpty, "\(kept) were kept, though all have had \(had)")
                #expect(outcome.floor.number >= had)
            }
            #expect(outcome.floor == report.floorAfter)
        }

        /// All are well again, and work off what there is; then all that was written was delivered,
        /// or its loss was told.
        func finish() async throws {
            consumers = ["A", "B", "C"]
            broken = []
            try await serve(for: 1)
            for consumer in consumers {
                let told = listeners[consumer]?.all() ?? []
                var delivered: Set<Int64> = []
                var lost: Set<Int64> = []
                for line in told {
                    let words = line.split(separator: " ")
                    if words[0] == "insert" {
                        delivered.formUnion(words.dropFirst(2).compactMap { Int64($0) })
                    } else if let after = Int64(words[3]) {
                        lost.formUnion(stride(from: (Int64(words[1]) ?? 0) + 1, through: after, by: 1))
                    }
                }
                for (number, author) in written where rule.delivers(author, to: consumer) {
                    #expect(
                        delivered.contains(number) || lost.contains(number),
                        "\(consumer) was neither given \(number) nor told that it is lost: \(told)")
                }
                #expect(delivered.isDisjoint(with: written.filter { $0.author == consumer }.map(\.number)))
            }
            try await feed.connect(served, store.folder.path, most: .max, acknowledges: { _ in true })
            for (number, author) in written where rule.delivers(author, to: feed.feed.consumer) {
                // A transaction has its last change's number.
                let token = written.first { $0.number >= number && feed.had.contains($0.number) }
                #expect(token != nil || feed.lost.contains(number), "The feed was not given \(number).")
            }
            #expect(feed.had.isDisjoint(with: written.filter { $0.author == feed.feed.consumer }.map(\.number)))
            // Each row has the number of its insert. What is not delivered is not merged.
            let replica = Set(try store.rows(of: store.replica().path))
            let rows = Set(try store.rows())
            #expect(replica.isSubset(of: rows))
            let missing = Set(
                rows.subtracting(replica).compactMap {
                    Int64($0.split(separator: ":")[1].prefix { $0.isNumber })
                })
            #expect(missing.isSubset(of: written.filter { !rule.delivers($0.author, to: "C") }.map(\.number)))
        }
    }
}

extension GatekeeperStore {
    func cursors() throws -> [String: Int64] {
        let state = try state()
        defer { try? state.close() }
        return Dictionary(
            uniqueKeysWithValues: try state.cursors.all().map { ($0.key.text, $0.value.position) })
    }

    func feed(_ feed: FeedID) throws -> Int64? {
        let state = try state()
        defer { try? state.close() }
        return try state.feeds.state(of: feed)?.position
    }
}
