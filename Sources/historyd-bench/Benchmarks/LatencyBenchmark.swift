/// How long after a commit an observer has it, in the best case: the writer waits for the observer, and then for a
/// millisecond, before it commits again.
///
/// Each observer has its own store and writer, so that no other commits wake it. The observers take turns.
struct LatencyBenchmark {
    private static let pause: UInt32 = 1000

    /// How durable a commit is when COMMIT returns.
    struct Mode {
        let journal: BenchStore.Journal
        let synchronous: String

        var text: String {
            (journal == .wal ? "WAL" : "rollback journal") + ", synchronous=\(synchronous)"
        }
    }

    private static let modes = [
        Mode(journal: .wal, synchronous: "NORMAL"), Mode(journal: .wal, synchronous: "FULL"),
        Mode(journal: .delete, synchronous: "FULL"),
    ]

    let workplace: Workplace
    let sizes: Sizes

    func run() throws -> Findings {
        var findings = Findings()
        for mode in Self.modes {
            let folder = try workplace.makeFolder("latency")
            defer { Progress.attempt { try workplace.remove(folder) } }
            let field = try LatencyField(workplace, folder, mode)
            defer { field.end() }
            findings.figures += try measure(field, mode)
            for omission in field.omissions where !findings.omissions.contains(omission) {
                findings.omissions.append(omission)
            }
        }
        return findings
    }

    private func measure(_ field: LatencyField, _ mode: Mode) throws -> [Figure] {
        var results = field.contestants.map { _ in LatencyResult() }
        var processor: (daemon: [Double], consumer: [Double]) = ([], [])
        var turns = Turns(field.contestants.count)
        // The first round warms up.
        for round in 0...sizes.rounds {
            let before = try field.processorTimes()
            for index in turns.next() {
                // Each miss takes long; for an observer that misses most commits, that is the result.
                let few = round == 0 || !results[index].notices
                let result = try measure(
                    field.contestants[index], commits: few ? min(sizes.commits, 40) : sizes.commits)
                guard round > 0 else { continue }
                results[index].add(result.latencies, missed: result.missed)
            }
            let after = try field.processorTimes()
            guard round > 0 else { continue }
            processor.daemon.append((after.daemon - before.daemon) / Double(sizes.commits) * 1e6)
            processor.consumer.append((after.consumer - before.consumer) / Double(sizes.commits) * 1e6)
        }
        return figures(field, mode, results) + [
            Figure(
                group(mode), "historyd, processor time each", rounds: processor.daemon, .microseconds,
                against: .init(name: LatencyField.baseline, rounds: processor.consumer))
        ]
    }

    private func measure(_ contestant: any Contestant, commits: Int) throws -> (
        latencies: Distribution?, missed: Double
    ) {
        var latencies: [Double] = []
        var missed = 0
        for _ in 0..<commits {
            if let latency = try contestant.latency() { latencies.append(latency) } else { missed += 1 }
            Clock.pause(microseconds: Self.pause)
        }
        return (latencies.isEmpty ? nil : Distribution(latencies), Double(missed) / Double(commits) * 100)
    }

    private func group(_ mode: Mode) -> String {
        "from COMMIT's return to the consumer, the writer waiting for it, \(mode.text)"
    }

    /// Compares the bare consumers to the shortest one, and historyd to that one and to all others.
    private func figures(_ field: LatencyField, _ mode: Mode, _ results: [LatencyResult]) -> [Figure] {
        let all = Array(zip(field.contestants, results))
        guard let subject = all.first(where: { $0.0.role == .historyd }),
            let floor = all.first(where: { $0.0.role == .floor })
        else { return [] }
        return all.flatMap { contestant, result -> [Figure] in
            switch contestant.role {
            case .historyd: pair(mode, subject, beside: floor)
            case .floor: []
            case .sameWay:
                pair(
                    mode, subject, beside: (contestant, result),
                    aim: mode.journal == .wal ? .ratioAtMost(2) : nil)
                    + pair(mode, (contestant, result), beside: floor)
            case .variant: pair(mode, (contestant, result), beside: floor) + missed(mode, contestant, result)
            case .rival:
                pair(mode, subject, beside: (contestant, result), aim: .ratioAtMost(1))
                    + missed(mode, contestant, result)
            }
        }
    }

    private typealias Entry = (contestant: any Contestant, result: LatencyResult)

    private func pair(_ mode: Mode, _ entry: Entry, beside other: Entry, aim: Aim? = nil) -> [Figure] {
        guard entry.result.notices, other.result.notices else { return [] }
        return [("p50", \LatencyResult.p50), ("p99", \LatencyResult.p99)].map { label, path in
            Figure(
                group(mode), "\(entry.contestant.name), \(label)", rounds: entry.result[keyPath: path],
                .microseconds, against: .init(name: other.contestant.name, rounds: other.result[keyPath: path]),
                aim: aim)
        }
    }

    /// An observer that missed nothing is not mentioned.
    private func missed(_ mode: Mode, _ contestant: any Contestant, _ result: LatencyResult) -> [Figure] {
        guard result.missedInAll > 0 else { return [] }
        return [Figure(group(mode), "\(contestant.name), missed", result.missedInAll, .percent)]
    }
}
