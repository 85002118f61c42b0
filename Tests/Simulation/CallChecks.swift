/// What plugins were called for: in order, under one id with one content, and not again after a success.
struct CallChecks {
    private(set) var found: [Violation] = []

    private let stores: [String: StoreSetup]
    private var contents: [String: String] = [:]
    private var life = 0
    /// When each delivery succeeded in this life.
    private var succeeded: [String: Int64] = [:]
    private var owners: [String: String] = [:]
    /// What has succeeded in lives that ended in order.
    private var done: Set<String> = []
    /// Stores that suffered from something in this life: what was done may not have been saved.
    private var suffering: Set<String> = []
    /// When their plugins' processes were killed.
    private var kills: [String: [Int64]] = [:]
    private var positions: [String: (number: Int64, time: Int64)] = [:]
    private var failed: Set<String> = []
    /// Consumers of which calls are under way behind one that has failed: these are made in vain.
    private var doubtful: [String: Set<String>] = [:]
    /// When a store was opened again, and when its plugin's process ended.
    private var openings: [String: [Int64]] = [:]
    private var ends: [String: [Int64]] = [:]
    /// What is found wrong, unless the journal tells soon that the store was opened again.
    private var suspicions: [(store: String, since: Int64, time: Int64, violation: Violation)] = []

    /// How late the journal's entries may come.
    private static let delay: Int64 = 100_000_000
    /// How long before its end a process's answers may stay unread.
    private static let unread: Int64 = 200_000_000

    /// How long after a store was opened again answers may come to calls that were made before it: a session that ends for
    /// a lost file, or for want of a descriptor, waits a second for them.
    private static let lateAnswers: Int64 = 10_000_000_000
    /// Whether stores are set back.
    private let isRestored: Bool
    /// Whether one plugin is called for all stores.
    private let sharesPlugin: Bool

    init(_ scenario: Scenario) {
        isRestored = scenario.kind == .restores
        sharesPlugin = scenario.kind == .folders
        stores = Dictionary(uniqueKeysWithValues: scenario.stores.map { ($0.name, $0) })
    }

    mutating func take(_ line: Record.Line) {
        if line.life != life {
            settle(at: .max)
            (suffering, kills) = ([], [:])
            (life, succeeded, positions, doubtful, openings, ends) = (line.life, [:], [:], [:], [:], [:])
        }
        settle(at: line.time)
        if ["disk", "removed", "closed", "restored", "left", "moves", "held"].contains(line.kind) {
            suffering.insert(line[0])
        }
        switch line.kind {
        case "machine": suffering.formUnion(stores.keys)
        case "call": call(line)
        // What could not be saved is not known any more when the store is opened again.
        case "closed": openings[line[0], default: []].append(line.time)
        case "restored": (succeeded, done) = ([:], [])
        case "told" where isRestored: succeeded = [:]
        case "ended": noteDone()
        case "ended process":
            for store in sharesPlugin ? Array(stores.keys) : [line[0].replacing("p", with: "s")] {
                ends[store, default: []].append(line.time)
                if line.number(2) < 0 { kills[store, default: []].append(line.time) }
            }
        case "calm": settle(at: .max)
        default: break
        }
    }

    private mutating func call(_ line: Record.Line) {
        let (store, delivery, number, outcome) = (line[0], line[3], line.number(4), line[5])
        let whole = String(delivery.prefix { $0 != "#" })
        // What an operator has repeated is in order by itself.
        let replay = whole.firstRange(of: "/replay-").map { String(whole[$0.lowerBound...]) } ?? ""
        let hook = line.fields[0...2].joined(separator: "/") + replay
        let consumer = store + "/" + line[1]
        let setup = stores[store]
        // A restored store gives numbers again, and delivery ids with them.
        if let earlier = contents.updateValue(line[6], forKey: delivery), earlier != line[6], !isRestored {
            found.append(Violation(.order, "\(delivery) was \(earlier), and is \(line[6])"))
        }
        defer { if outcome != "ok" { failed.insert(whole) } }
        if var seen = doubtful[consumer] {
            if !seen.contains(delivery) {
                seen.insert(delivery)
                doubtful[consumer] = seen
                return
            }
            doubtful[consumer] = nil
        }
        if done.contains(delivery) {
            found.append(Violation(.repeated, "\(delivery), which was done before an orderly stop"))
        }
        if let time = succeeded[delivery] {
            suspect(store, since: time, line.time, Violation(.repeated, delivery))
        }
        let isDeadLetter = setup?.skips ?? false && failed.contains(whole)
        if !isRestored, let last = positions[hook], number < last.number, !isDeadLetter {
            suspect(
                store, since: last.time, line.time, Violation(.order, "\(hook): \(number) after \(last.number)")
            )
        }
        if !isDeadLetter { positions[hook] = (number, line.time) }
        if outcome == "ok" {
            succeeded[delivery] = line.time
            owners[delivery] = store
        } else if setup?.window != 1 {
            doubtful[consumer] = [delivery]
        }
    }

    /// A stop waits for the calls in flight, where there is one at a time.
    private mutating func noteDone() {
        for (delivery, time) in succeeded {
            guard let store = owners[delivery], stores[store]?.window == 1, !suffering.contains(store),
                !kills[store, default: []].contains(where: { $0 >= time && $0 - time < Self.unread })
            else { continue }
            done.insert(delivery)
        }
    }

    private mutating func suspect(_ store: String, since: Int64, _ time: Int64, _ violation: Violation) {
        // The answer may have been there and not been read.
        if ends[store, default: []].contains(where: { $0 >= since && $0 - since < Self.unread }) { return }
        suspicions.append((store, since, time, violation))
    }

    private mutating func settle(at now: Int64) {
        suspicions.removeAll { suspicion in
            let openings = openings[suspicion.store, default: []]
            if openings.contains(where: { $0 >= suspicion.since }) { return true }
            // The first one of a life follows no session.
            if openings.dropFirst().contains(where: { $0 >= suspicion.since - Self.lateAnswers }) {
                return true
            }
            guard now > suspicion.time + Self.delay || now == .max else { return false }
            found.append(suspicion.violation)
            return true
        }
    }
}
