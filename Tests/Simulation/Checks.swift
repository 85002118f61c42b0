import FoundationEssentials
import PersistentHistory

/// Something that must not happen.
struct Violation: Error, Hashable, CustomStringConvertible {
    enum Kind: String {
        /// A transaction was not delivered in the end.
        case missing
        /// A hook was called in another order, or under another delivery id.
        case order
        /// What had succeeded was called again in the same run.
        case repeated
        /// A cursor went back.
        case setBack
        /// History was lost, though nobody has taken it away.
        case lost
        /// A replica is not what its store is.
        case replica
        /// A store that is well was served late because of another one.
        case late
        /// The watchdog was not fed for some seconds.
        case watchdog
        /// The loop waited for something else than events.
        case stall
        case noStop, stuck, crash
    }

    let kind: Kind
    let text: String

    init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }

    var description: String { "\(kind.rawValue): \(text)" }
}

/// Reads a record, and finds what must not be in it.
struct Checks {
    private let scenario: Scenario
    private let lines: [Record.Line]

    init(_ scenario: Scenario, _ record: String) {
        self.scenario = scenario
        lines = record.split(separator: "\n").compactMap(Record.Line.init)
    }

    /// A new life knows what was committed and delivered before.
    static func remember(record path: String, _ deliveries: Deliveries) {
        guard let record = try? String(contentsOfFile: path, encoding: .utf8) else { return }
        for line in record.split(separator: "\n").compactMap(Record.Line.init) {
            switch line.kind {
            case "commit":
                guard let change = Change(rawValue: line[2]) else { continue }
                Commits.shared.add(line[0], line[1], change, line.number(3))
            case "call" where line[5] == "ok": deliveries.add(line[0], line[1], line[2], line.number(4))
            case "fed": deliveries.add(line[0], line[1], "feed", line.number(2))
            default: break
            }
        }
    }

    var violations: [Violation] {
        missing + calls + cursors + losses + replicas + (isAboutIsolation ? late + stalls : [])
    }

    private var isAboutIsolation: Bool { scenario.kind == .isolation }

    private var missing: [Violation] {
        lines.filter { $0.kind == "missing" }.map { Violation(.missing, $0[0]) }
    }

    private var losses: [Violation] {
        lines.filter { $0.kind == "lost" }.map { Violation(.lost, $0.fields.joined(separator: " ")) }
    }

    private var replicas: [Violation] {
        lines.filter { $0.kind == "replica" && $0[2] != "equal" }.map {
            Violation(.replica, "\($0[0]) \($0[1]): \($0[2].prefix(400))")
        }
    }

    /// In order, under one id, and not again after a success.
    private var calls: [Violation] {
        var found: [Violation] = []
        var contents: [String: String] = [:]
        var succeeded: Set<String> = []
        var positions: [String: Int64] = [:]
        var stores: [String: String] = [:]
        var life = 0
        for line in lines where line.kind == "call" || line.kind == "closed" {
            if line.life != life {
                (succeeded, positions, life) = ([], [:], line.life)
            }
            // What could not be saved is not known any more when the store is opened again.
            if line.kind == "closed" {
                let store = line[0]
                succeeded = succeeded.filter { stores[$0] != store }
                positions = positions.filter { !$0.key.hasPrefix(store + "/") }
                continue
            }
            stores[line[3]] = line[0]
            let (delivery, number) = (line[3], line.number(4))
            let hook = line.fields[0...2].joined(separator: "/")
            if let earlier = contents.updateValue(line[6], forKey: delivery), earlier != line[6] {
                found.append(Violation(.order, "\(delivery) was \(earlier), and is \(line[6])"))
            }
            if succeeded.contains(delivery) { found.append(Violation(.repeated, delivery)) }
            if number < positions[hook, default: 0] {
                found.append(Violation(.order, "\(hook): \(number) after \(positions[hook] ?? 0)"))
            }
            positions[hook] = number
            if line[5] == "ok" { succeeded.insert(delivery) }
        }
        return found + gaps
    }

    /// Nothing is called for the first time after something later was.
    private var gaps: [Violation] {
        var found: [Violation] = []
        var had: [String: Set<Int64>] = [:]
        for line in lines where line.kind == "call" {
            let hook = line.fields[0...2].joined(separator: "/")
            let number = line.number(4)
            let isNew = had[hook, default: []].insert(number).inserted
            if isNew, let last = had[hook]?.max(), last > number {
                found.append(Violation(.order, "\(hook): \(number) comes first after \(last)"))
            }
        }
        return found
    }

    /// A cursor goes forward, and after a kill begins no earlier than where its last calls were done. (What it passed by
    /// without a call may be passed by again.)
    private var cursors: [Violation] {
        var found: [Violation] = []
        var (positions, kept): ([String: Int64], [String: Int64]) = ([:], [:])
        var called: Set<String> = []
        var losesPower = false
        for line in lines {
            let consumer = line[0] + "/" + line[1]
            switch line.kind {
            case "power": losesPower = true
            case "life":
                // What was not synced may be done again.
                if losesPower { kept = [:] }
                (positions, called, losesPower) = ([:], [], false)
            case "call" where line[5] == "ok": called.insert(consumer)
            case "moved", "stands":
                let earliest = line.kind == "moved" ? positions[consumer] : kept[consumer]
                if line.number(2) < earliest ?? 0 {
                    found.append(Violation(.setBack, "\(consumer): \(line[2]) after \(earliest ?? 0)"))
                }
                positions[consumer] = line.number(2)
                if called.remove(consumer) != nil { kept[consumer] = line.number(2) }
            default: break
            }
        }
        return found
    }

    private var stalls: [Violation] {
        lines.filter { $0.kind == "ended" && $0.number(0) > 20 }.map {
            Violation(.stall, "The loop waited \($0[0]) ms.")
        }
    }

    /// How late a store that is well may be served, how long a daemon may take to open it, and how long the watchdog may
    /// wait.
    private static let patience: Int64 = 250_000_000
    private static let start: Int64 = 1_000_000_000
    private static let watch: Int64 = 3_000_000_000

    /// All stores but the first are well, all the time.
    private var late: [Violation] {
        var found: [Violation] = []
        var (began, watched): (Int64, Int64) = (0, 0)
        var waiting: [String: [Int64: Int64]] = [:]
        func served(_ name: String, through number: Int64, at time: Int64) {
            for (position, committed) in waiting[name, default: [:]] where position <= number {
                waiting[name]?[position] = nil
                let delay = time - max(committed, began + Self.start)
                if delay > Self.patience {
                    found.append(Violation(.late, "\(name): \(position) after \(delay / 1_000_000) ms"))
                }
            }
        }
        for line in lines {
            switch line.kind {
            case "life": (began, watched) = (line.time, line.time)
            case "commit" where line[0] != "s0":
                for name in concerned(by: line) { waiting[name, default: [:]][line.number(3)] = line.time }
            case "call" where line[0] != "s0":
                served("\(line[0])/\(line[1])/\(line[2])", through: line.number(4), at: line.time)
            case "merged" where line[0] != "s0":
                served("\(line[0])/\(line[1])/copy", through: line.number(2), at: line.time)
            case "watched", "stop":
                if line.time - watched > Self.watch {
                    found.append(
                        Violation(.watchdog, "It was not fed for \((line.time - watched) / 1_000_000) ms."))
                }
                watched = line.time
            default: break
            }
        }
        return found.sorted { $0.text < $1.text }
    }

    /// Whom a commit concerns.
    private func concerned(by line: Record.Line) -> [String] {
        guard let store = scenario.stores.first(where: { $0.name == line[0] }),
            let change = Change(rawValue: line[2])
        else { return [] }
        let commit = Commits.Commit(author: line[1], change: change, number: line.number(3))
        return store.consumers.flatMap { consumer in
            let copy = consumer.hasReplica ? [HookSetup(name: "copy", entity: nil)] : []
            return (consumer.hooks + copy).filter { commit.concerns($0, of: consumer.author) }
                .map { "\(store.name)/\(consumer.author)/\($0.name)" }
        }
    }
}
