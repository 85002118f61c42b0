/// How long after a commit an observer has it, in the best case: the writer waits for the observer, and then for a
/// millisecond, before it commits again. The observers take turns.
struct LatencyBenchmark: Benchmark {
    private static let pause: UInt32 = 1000

    /// How durable a commit is when COMMIT returns.
    private struct Mode {
        let journal: BenchStore.Journal
        let synchronous: String

        var group: String {
            "from COMMIT's return to the consumer, the writer waiting for it, "
                + (journal == .wal ? "WAL" : "rollback journal") + ", synchronous=\(synchronous)"
        }
    }

    private static let modes = [
        Mode(journal: .wal, synchronous: "NORMAL"), Mode(journal: .wal, synchronous: "FULL"),
        Mode(journal: .delete, synchronous: "FULL"),
    ]

    let workplace: Workplace
    let sizes: Sizes

    func measure(_ omissions: inout [String]) throws -> [Figure] {
        var figures: [Figure] = []
        for mode in Self.modes {
            let field = try ObserverField(workplace, mode.journal, synchronous: mode.synchronous)
            defer { field.end() }
            let (daemon, floor) = (try field.daemon(), try field.consumer(ObserverField.consumer))
            var contestants = [
                Contestant(daemon, .historyd), Contestant(floor, .floor),
                Contestant(try field.consumer(ObserverField.consumerAndPlugin, plugin: true), .sameWay),
                Contestant(try field.consumer("naive inotify loop", .naive), .variant, mayMiss: true),
            ]
            do {
                let (path, writer) = try field.makeStore()
                let script = try ShellConsumer(workplace, path)
                contestants.append(
                    Contestant(name: "shell: inotifywait and sqlite3", role: .rival) {
                        try script.latency(writer)
                    })
            } catch let missing as Tool.Missing {
                let omission = "the shell script: \(missing.reason)"
                if !omissions.contains(omission) { omissions.append(omission) }
            }
            figures += try measure(contestants, daemon, floor, mode)
        }
        return figures
    }

    private func measure(
        _ contestants: [Contestant], _ daemon: Observer, _ floor: Observer, _ mode: Mode
    ) throws -> [Figure] {
        var results = contestants.map { _ in LatencyResult() }
        var processor: (daemon: [Double], floor: [Double]) = ([], [])
        var turns = Turns(contestants.count)
        // The first round warms up.
        for round in 0...sizes.rounds {
            let before = (try daemon.processorTime(), try floor.processorTime())
            for index in turns.next() {
                // Each miss takes long; for an observer that misses most commits, that is the result.
                let few = round == 0 || !results[index].notices
                let commits = few ? min(sizes.commits, 40) : sizes.commits
                let latencies = try (0..<commits).compactMap { _ in
                    defer { Clock.pause(microseconds: Self.pause) }
                    return try contestants[index].latency()
                }
                if round > 0 { results[index].add(latencies, of: commits) }
            }
            guard round > 0 else { continue }
            processor.daemon.append((try daemon.processorTime() - before.0) / Double(sizes.commits) * 1e6)
            processor.floor.append((try floor.processorTime() - before.1) / Double(sizes.commits) * 1e6)
        }
        return figures(mode, Array(zip(contestants, results))) + [
            Figure(
                mode.group, "historyd, processor time each", rounds: processor.daemon, .microseconds,
                against: .init(name: ObserverField.consumer, rounds: processor.floor))
        ]
    }

    private typealias Entry = (contestant: Contestant, result: LatencyResult)

    /// Compares the bare consumers to the shortest one, and historyd to that one and to all others.
    private func figures(_ mode: Mode, _ all: [Entry]) -> [Figure] {
        guard let subject = all.first(where: { $0.contestant.role == .historyd }),
            let floor = all.first(where: { $0.contestant.role == .floor })
        else { return [] }
        return all.flatMap { entry -> [Figure] in
            switch entry.contestant.role {
            case .historyd: pair(mode, subject, beside: floor)
            case .floor: []
            case .sameWay:
                pair(mode, subject, beside: entry, aim: mode.journal == .wal ? .ratioAtMost(2) : nil)
                    + pair(mode, entry, beside: floor)
            case .variant: pair(mode, entry, beside: floor) + missed(mode, entry)
            case .rival: pair(mode, subject, beside: entry, aim: .ratioAtMost(1)) + missed(mode, entry)
            }
        }
    }

    private func pair(_ mode: Mode, _ entry: Entry, beside other: Entry, aim: Aim? = nil) -> [Figure] {
        guard entry.result.notices, other.result.notices else { return [] }
        return [("p50", \LatencyResult.p50), ("p99", \LatencyResult.p99)].map { label, path in
            Figure(
                mode.group, "\(entry.contestant.name), \(label)", rounds: entry.result[keyPath: path],
                .microseconds, against: .init(name: other.contestant.name, rounds: other.result[keyPath: path]),
                aim: aim)
        }
    }

    /// An observer that missed nothing is not mentioned.
    private func missed(_ mode: Mode, _ entry: Entry) -> [Figure] {
        guard entry.result.missedInAll > 0 else { return [] }
        return [Figure(mode.group, "\(entry.contestant.name), missed", entry.result.missedInAll, .percent)]
    }
}
