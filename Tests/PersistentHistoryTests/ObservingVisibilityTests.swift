import PersistentHistory
import TestSupport
import Testing

/// The rule never rests while there is a commit that a taken signal spoke of and no look has seen.
struct ObservingVisibilityTests {
    // MARK: A model of writers and an observer

    /// What a writer does, one step after the other; the steps of one transaction lie between `lock` and `unlock`.
    enum WriterStep: Hashable {
        case lock, exclude, write, publish, unlock
    }

    /// One reader, by one rule, and writers who take turns. Everything but the rule is as simple as can be.
    struct World<Rule: Hashable & Settling>: Hashable {
        var writer: ArraySlice<WriterStep>
        var rule: Rule
        var step = VisibilityRule.Step.idle
        var isLocked = false
        /// Whether it has a rollback journal, and a look may make a writer's commit fail.
        var hasJournal = false
        /// Whether nobody can read: a rollback-journal store is locked altogether for a while.
        var isExclusive = false
        var published = 0
        var seen = 0
        var isSignalPending = false

        var isDone: Bool { writer.isEmpty && !canObserve }
        var canObserve: Bool { step != .idle || isSignalPending }
        /// Whether a signal comes during a delay.
        var canInterrupt: Bool { if case .wait = step { isSignalPending } else { false } }

        mutating func write() {
            switch writer.popFirst() {
            case .lock: isLocked = true
            case .write: isSignalPending = true
            case .publish: published += 1
            case .exclude: isExclusive = true
            case .unlock: (isLocked, isExclusive) = (false, false)
            case nil: break
            }
        }

        mutating func observe() {
            switch step {
            case .idle:
                isSignalPending = false
                step = rule.woke()
            case .ask: step = rule.asked(writerActive: isLocked, disturbsWriter: hasJournal)
            case .look where isExclusive: step = rule.looked(foundNew: nil)
            case .look:
                step = rule.looked(foundNew: published > seen)
                seen = published
            case .wait: step = rule.waited()
            }
        }

        mutating func interrupt() {
            guard let next = rule.signalled() else { return }
            isSignalPending = false
            step = next
        }
    }

    /// Transactions of several kinds: with one write and with several, rolled back, with nothing written.
    static let transactions: [[WriterStep]] = [
        [.lock, .write, .publish, .unlock],
        [.lock, .write, .write, .publish, .unlock],
        [.lock, .write, .unlock],
        [.lock, .unlock],
        // `BEGIN EXCLUSIVE`, as for a backup.
        [.lock, .exclude, .unlock],
        // A checkpoint writes without the writers' lock.
        [.write],
    ]

    /// All ends that can be reached from a world, by any order of steps.
    static func ends<Rule>(of start: World<Rule>) -> [World<Rule>] {
        var known: Set<World<Rule>> = [start]
        var open = [start]
        var ends: [World<Rule>] = []
        while let world = open.popLast() {
            if world.isDone { ends.append(world) }
            var next: [World<Rule>] = []
            if !world.writer.isEmpty {
                next.append(world)
                next[next.count - 1].write()
            }
            if world.canObserve {
                next.append(world)
                next[next.count - 1].observe()
            }
            if world.canInterrupt {
                next.append(world)
                next[next.count - 1].interrupt()
            }
            open += next.filter { known.insert($0).inserted }
        }
        return ends
    }

    static let threeTransactions = transactions.flatMap { first in
        transactions.flatMap { second in transactions.map { first + second + $0 } }
    }

    @Test func everyInterleavingEndsWithEverythingSeen() {
        // One delay, for the states to be finite in number and few; it is long enough to be interrupted.
        let rule = VisibilityRule(firstDelay: .milliseconds(2), longestDelay: .milliseconds(2))
        for (steps, hasJournal) in Self.threeTransactions.flatMap({ [($0, false), ($0, true)] }) {
            let ends = Self.ends(of: World(writer: steps[...], rule: rule, hasJournal: hasJournal))
            #expect(!ends.isEmpty)
            #expect(ends.allSatisfy { $0.seen == $0.published }, "\(steps)")
        }
    }

    /// The model can tell: it finds the fault of rules that are nearly right.
    @Test func theModelFindsTheFaultOfWrongRules() {
        func finds<Rule: Hashable & Settling>(_ rule: Rule) -> Bool {
            Self.threeTransactions.contains { steps in
                Self.ends(of: World(writer: steps[...], rule: rule)).contains { $0.seen != $0.published }
            }
        }
        #expect(finds(LookBeforeAsking()))
        #expect(finds(LookOnce()))
        #expect(finds(BusyIsNothing(rule: VisibilityRule(firstDelay: .zero, longestDelay: .zero))))
        #expect(finds(RestWhenFound(rule: VisibilityRule(firstDelay: .zero, longestDelay: .zero))))
        #expect(!finds(VisibilityRule(firstDelay: .zero, longestDelay: .zero)))
    }

    @Test(arguments: [UInt64.random(in: 0...UInt64.max)])
    func longRandomHistoriesEndWithEverythingSeen(seed: UInt64) {
        var random = SplitMix(state: seed)
        for _ in 0..<800 {
            let steps = (0..<20).flatMap { _ in Self.transactions.randomElement(using: &random) ?? [] }
            var world = World(writer: steps[...], rule: VisibilityRule())
            while !world.isDone {
                if world.canInterrupt, Bool.random(using: &random) {
                    world.interrupt()
                } else if world.canObserve, world.writer.isEmpty || Bool.random(using: &random) {
                    world.observe()
                } else {
                    world.write()
                }
            }
            #expect(world.seen == world.published, "seed \(seed): \(steps)")
        }
    }

    // MARK: Cost

    /// The delays while a writer stays active, for `duration` altogether.
    private func delays(_ rule: VisibilityRule, for duration: Duration) -> [Duration] {
        var rule = rule
        var delays: [Duration] = []
        var waited = Duration.zero
        var step = rule.woke()
        while waited < duration {
            switch step {
            case .ask: step = rule.asked(writerActive: true)
            case .look: step = rule.looked(foundNew: false)
            case .wait(let delay):
                delays.append(delay)
                waited += delay
                step = rule.waited()
            case .idle: return delays
            }
        }
        return delays
    }

    @Test func aCommitIsSeenLateByAtMostAnEighthOfItsDuration() {
        var waited = Duration.zero
        for delay in delays(VisibilityRule(), for: .seconds(10)) {
            #expect(delay <= max(waited / 8, .microseconds(30)))
            #expect(delay <= .milliseconds(100))
            waited += delay
        }
    }

    @Test func aLongTransactionCostsTenLooksASecond() {
        #expect(delays(VisibilityRule(), for: .milliseconds(1)).count < 25)
        #expect(delays(VisibilityRule(), for: .seconds(1)).count < 90)
        #expect(delays(VisibilityRule(), for: .seconds(3600)).count < 36_100)
    }

    @Test func delaysBeginAnewWithASignalAndWithSomethingFound() {
        var rule = VisibilityRule()
        func look(findingNew found: Bool = false) -> VisibilityRule.Step {
            _ = rule.asked(writerActive: true)
            let step = rule.looked(foundNew: found)
            return step == .ask ? rule.asked(writerActive: true) : step
        }
        _ = rule.woke()
        let first = look()
        for _ in 0..<100 {
            _ = rule.waited()
            _ = look()
        }
        #expect(look() != first)
        #expect(look(findingNew: true) == first)
        for _ in 0..<100 {
            _ = rule.waited()
            _ = look()
        }
        _ = rule.woke()
        #expect(look() == first)
    }

    /// A commit that ended while it was looked for costs no delay.
    @Test(arguments: [true, false])
    func theQuestionIsAskedAgainBeforeADelay(found: Bool) {
        var rule = VisibilityRule()
        #expect(rule.woke() == .ask)
        #expect(rule.asked(writerActive: true) == .look)
        #expect(rule.looked(foundNew: found) == .ask)
        var ended = rule
        #expect(ended.asked(writerActive: false) == .look)
        #expect(ended.looked(foundNew: true) == .idle)
        #expect(rule.asked(writerActive: true) == .wait(.microseconds(30)))
        #expect(rule.waited() == .ask)
        #expect(rule.asked(writerActive: true) == .look)
        #expect(rule.looked(foundNew: false) == .wait(.microseconds(30)))
    }

    // MARK: Locked out

    /// How looks fare beside a writer of a rollback-journal store that never pauses: a reader succeeds only in the first
    /// `opening` of each `period`, and its files change at the beginning of that.
    private func looksUntilSeen(
        _ rule: VisibilityRule, from start: Duration, period: Duration, opening: Duration, heedsSignals: Bool
    ) -> (looks: Int, time: Duration) {
        var (rule, now, looks) = (rule, start, 0)
        var step = rule.woke()
        func phase(_ time: Duration) -> Duration { time - period * Int(time / period) }
        while looks < 100_000 {
            switch step {
            case .ask: step = rule.asked(writerActive: phase(now) >= opening)
            case .look:
                looks += 1
                if phase(now) < opening { return (looks, now - start) }
                step = rule.looked(foundNew: nil)
            case .wait(let delay):
                let signal = now + period - phase(now)
                if heedsSignals, signal < now + delay, let next = rule.signalled() {
                    (now, step) = (signal, next)
                } else {
                    now += delay
                    step = rule.waited()
                }
            case .idle: return (looks, now - start)
            }
        }
        return (looks, now - start)
    }

    @Test(arguments: [UInt64.random(in: 0...UInt64.max)])
    func aLookGetsInBesideAWriterThatNeverPauses(seed: UInt64) {
        var random = SplitMix(state: seed)
        var longestWithoutSignals = Duration.zero
        for _ in 0..<200 {
            let period = Duration.microseconds(Int.random(in: 100...20_000, using: &random))
            let start = Duration.microseconds(Int.random(in: 0...1_000_000, using: &random))
            let (_, time) = looksUntilSeen(
                VisibilityRule(), from: start, period: period, opening: .microseconds(2), heedsSignals: true)
            // Until the delays are worth a signal, and then until the next one.
            #expect(time < .milliseconds(12) + period, "seed \(seed), period \(period), start \(start)")
            longestWithoutSignals = max(
                longestWithoutSignals,
                looksUntilSeen(
                    VisibilityRule(), from: start, period: period, opening: .microseconds(2),
                    heedsSignals: false
                ).time)
        }
        // By chance alone.
        #expect(longestWithoutSignals > .seconds(1), "seed \(seed)")
    }

    @Test func aLargeTransactionCostsFewLooksHoweverOftenItsFilesChange() {
        let (looks, time) = looksUntilSeen(
            VisibilityRule(), from: .microseconds(5), period: .microseconds(10), opening: .zero,
            heedsSignals: true)
        #expect(Double(looks) / (time / .seconds(1)) < 5000)
    }

    @Test func aSignalInterruptsOnlyADelayAfterALockedLook() {
        var rule = VisibilityRule(firstDelay: .milliseconds(2))
        _ = rule.woke()
        _ = rule.asked(writerActive: true)
        _ = rule.looked(foundNew: false)
        #expect(rule.signalled() == nil)
        _ = rule.waited()
        _ = rule.asked(writerActive: true)
        _ = rule.looked(foundNew: nil)
        #expect(rule.signalled() == .ask)
    }
}

// MARK: - Rules to compare with

/// What the model asks of a rule.
protocol Settling {
    mutating func woke() -> VisibilityRule.Step
    mutating func asked(writerActive: Bool, disturbsWriter: Bool) -> VisibilityRule.Step
    mutating func asked(writerActive: Bool) -> VisibilityRule.Step
    mutating func looked(foundNew: Bool?) -> VisibilityRule.Step
    mutating func waited() -> VisibilityRule.Step
    mutating func signalled() -> VisibilityRule.Step?
}

extension VisibilityRule: Settling {}

extension Settling {
    mutating func asked(writerActive: Bool, disturbsWriter: Bool) -> VisibilityRule.Step {
        asked(writerActive: writerActive)
    }
    mutating func signalled() -> VisibilityRule.Step? { nil }
}

/// Wrong: the writer may publish and unlock between the look and the question.
struct LookBeforeAsking: Settling, Hashable {
    mutating func woke() -> VisibilityRule.Step { .look }
    mutating func looked(foundNew: Bool?) -> VisibilityRule.Step { .ask }
    mutating func asked(writerActive: Bool) -> VisibilityRule.Step { writerActive ? .wait(.zero) : .idle }
    mutating func waited() -> VisibilityRule.Step { .look }
}

/// Wrong: the commit may not be published yet.
struct LookOnce: Settling, Hashable {
    mutating func woke() -> VisibilityRule.Step { .look }
    mutating func looked(foundNew: Bool?) -> VisibilityRule.Step { .idle }
    mutating func asked(writerActive: Bool) -> VisibilityRule.Step { .idle }
    mutating func waited() -> VisibilityRule.Step { .idle }
}

/// Wrong: what was found may be an earlier commit than the one under way.
struct RestWhenFound: Settling, Hashable {
    var rule: VisibilityRule
    mutating func woke() -> VisibilityRule.Step { rule.woke() }
    mutating func asked(writerActive: Bool) -> VisibilityRule.Step { rule.asked(writerActive: writerActive) }
    mutating func waited() -> VisibilityRule.Step { rule.waited() }
    mutating func looked(foundNew: Bool?) -> VisibilityRule.Step {
        let step = rule.looked(foundNew: foundNew)
        return foundNew == true ? .idle : step
    }
}

/// Wrong: whoever stands in the way may have come after the question, and leave without a sign.
struct BusyIsNothing: Settling, Hashable {
    var rule: VisibilityRule
    mutating func woke() -> VisibilityRule.Step { rule.woke() }
    mutating func asked(writerActive: Bool) -> VisibilityRule.Step { rule.asked(writerActive: writerActive) }
    mutating func waited() -> VisibilityRule.Step { rule.waited() }
    mutating func looked(foundNew: Bool?) -> VisibilityRule.Step { rule.looked(foundNew: foundNew ?? false) }
}
