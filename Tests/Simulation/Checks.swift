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
        /// An answer of the daemon is not true.
        case untrue
        /// A request was not answered in time.
        case unanswered
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

    var description: String { "\(kind.rawValue): \(text.replacing("\n", with: " "))" }

    /// As its description says it.
    init?(_ description: Substring) {
        guard let end = description.firstRange(of: ": "),
            let kind = Kind(rawValue: String(description[..<end.lowerBound]))
        else { return nil }
        self.init(kind, String(description[end.upperBound...]))
    }
}

/// Reads a record, and finds what must not be in it.
struct Checks {
    private let scenario: Scenario
    private let lines: [Record.Line]

    init(_ scenario: Scenario, _ record: String) {
        self.scenario = scenario
        lines = record.split(separator: "\n").compactMap(Record.Line.init)
    }

    var violations: [Violation] {
        // Where histories and states are lost, only what is told in the end counts.
        if scenario.kind == .upkeep { return missing + replicas + seen + watchdog }
        return missing + calls + losses + replicas + seen + watchdog
            + (scenario.kind == .restores ? [] : cursors + gaps) + (isAboutIsolation ? late + stalls : [])
    }

    /// What the world has seen.
    private var seen: [Violation] {
        lines.filter { $0.kind == "violation" }.compactMap { line in
            Violation.Kind(rawValue: line[0]).map { Violation($0, line[1]) }
        }
    }

    private var isAboutIsolation: Bool { scenario.kind == .isolation }

    private var missing: [Violation] {
        lines.filter { $0.kind == "missing" }.map { Violation(.missing, $0[0]) }
    }

    private var losses: [Violation] {
        lines.filter { $0.kind == "lost" && !(scenario.kind == .restores && $0[3] == "tokenExpired") }.map {
            Violation(.lost, $0.fields.joined(separator: " "))
        }
    }

    private var replicas: [Violation] {
        lines.filter { $0.kind == "replica" && $0[2] != "equal" }.map {
            Violation(.replica, "\($0[0]) \($0[1]): \($0[2].prefix(400))")
        }
    }

    /// In order, under one id, and not again after a success.
    private var calls: [Violation] {
        var checks = CallChecks(scenario)
        for line in lines { checks.take(line) }
        return checks.found
    }

    /// Nothing is called for the first time after something later was.
    private var gaps: [Violation] {
        var found: [Violation] = []
        var had: [String: Set<Int64>] = [:]
        // Whose dead letters come late.
        let skipping = Set(scenario.stores.filter(\.skips).map(\.name))
        for line in lines where line.kind == "call" && !skipping.contains(line[0]) {
            let hook = line.fields[0...2].joined(separator: "/")
            let number = line.number(4)
            let isNew = had[hook, default: []].insert(number).inserted
            if isNew, let last = had[hook]?.max(), last > number {
                found.append(Violation(.order, "\(hook): \(number) comes first after \(last)"))
            }
        }
        return found
    }

    /// A cursor goes forward, unless an operator moves it, and after a kill begins no earlier than where its last calls were done. (What it passed by
    /// without a call may be passed by again.)
    private var cursors: [Violation] {
        var found: [Violation] = []
        var (positions, kept): ([String: Int64], [String: Int64]) = ([:], [:])
        // Of the last call that was done; what the journal says comes later than it is so.
        var called: [String: Int64] = [:]
        var losesPower = false
        let moved = Set(lines.filter { $0.kind == "moves" }.map { $0[0] + "/" + $0[1] })
        for line in lines {
            let consumer = line[0] + "/" + line[1]
            switch line.kind {
            case "power": losesPower = true
            case "life":
                // What was not synced may be done again.
                if losesPower { kept = [:] }
                (positions, called, losesPower) = ([:], [:], false)
            case "call" where line[5] == "ok": called[consumer] = line.number(4)
            case "moved" where moved.contains(consumer), "stands" where moved.contains(consumer): break
            case "moved", "stands":
                let earliest = line.kind == "moved" ? positions[consumer] : kept[consumer]
                if line.number(2) < earliest ?? 0 {
                    found.append(Violation(.setBack, "\(consumer): \(line[2]) after \(earliest ?? 0)"))
                }
                positions[consumer] = line.number(2)
                if line.kind == "moved", let number = called[consumer], number <= line.number(2) {
                    kept[consumer] = max(kept[consumer] ?? 0, number)
                }
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

    private var watchdog: [Violation] {
        var found: [Violation] = []
        // Nil while the daemon stops: systemd then no longer waits for it to be fed.
        var watched: Int64? = 0
        for line in lines where ["life", "watched", "stop"].contains(line.kind) || line[0] == "isSuspended" {
            if line.kind != "life", line.kind != "machine", let before = watched,
                line.time - before > ServiceManager.watchdog
            {
                let time = (line.time - before) / 1_000_000
                found.append(Violation(.watchdog, "It was not fed for \(time) ms."))
            }
            if line.kind == "stop" {
                watched = nil
            } else if line.kind == "life" || watched != nil {
                watched = line.time
            }
        }
        return found
    }

    /// How late a store that is well may be served, and how long a daemon may take to open it.
    private static let longestDelay: Int64 = 250_000_000
    private static let start: Int64 = 1_000_000_000
    /// All stores but the first are well, all the time.
    private var late: [Violation] {
        var found: [Violation] = []
        var began: Int64 = 0
        var waiting: [String: [Int64: Int64]] = [:]
        // Since when a program is connected to a feed; a daemon that stops sends it nothing more.
        var opened: [String: Int64] = [:]
        var isStopping = false
        func isLate(_ name: String, _ position: Int64, since committed: Int64, at time: Int64) {
            let delay = time - max(committed, began + Self.start, opened[name] ?? 0)
            if delay > Self.longestDelay {
                found.append(Violation(.late, "\(name): \(position) after \(delay / 1_000_000) ms"))
            }
        }
        func served(_ name: String, through number: Int64, at time: Int64) {
            for (position, committed) in waiting[name, default: [:]] where position <= number {
                waiting[name]?[position] = nil
                isLate(name, position, since: committed, at: time)
            }
        }
        for line in lines {
            switch line.kind {
            case "life": (began, opened, isStopping) = (line.time, [:], false)
            case "stop": isStopping = true
            case "feed opened": opened["\(line[0])/\(line[1])/feed"] = line.time
            case "feed closed" where !isStopping:
                // Nobody is there to take the rest, until a program comes again.
                let name = "\(line[0])/\(line[1])/feed"
                for (position, committed) in waiting[name, default: [:]] {
                    isLate(name, position, since: committed, at: line.time)
                }
                opened[name] = nil
            case "fed" where line[0] != "s0":
                served("\(line[0])/\(line[1])/feed", through: line.number(2), at: line.time)
            case "commit" where line[0] != "s0":
                for name in concerned(by: line) { waiting[name, default: [:]][line.number(3)] = line.time }
            case "call" where line[0] != "s0":
                served("\(line[0])/\(line[1])/\(line[2])", through: line.number(4), at: line.time)
            case "merged" where line[0] != "s0":
                served("\(line[0])/\(line[1])/copy", through: line.number(2), at: line.time)
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
        let commit = Truth.Commit(author: line[1], change: change, number: line.number(3), time: line.time)
        return store.consumers.flatMap { consumer in
            let copy = consumer.hasReplica ? [HookSetup(name: "copy", entity: nil)] : []
            let feed = consumer.hasFeed ? [HookSetup(name: "feed", entity: nil)] : []
            return (consumer.hooks + copy + feed).filter { commit.concerns($0, of: consumer.author) }
                .map { "\(store.name)/\(consumer.author)/\($0.name)" }
        }
    }
}
