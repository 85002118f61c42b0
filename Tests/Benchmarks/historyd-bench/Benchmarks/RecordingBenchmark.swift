/// How recording slows a writer: the same writes to a tracked store, to an untracked one, and to one with minimal
/// triggers.
///
/// Processor time is the cost of recording. Elapsed time is how long the writer waits; with `synchronous=FULL` that is
/// mostly the disk.
struct RecordingBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        var figures: [Figure] = []
        for columns in [5, 50, 200] {
            let table = RecordedTable(columns: columns)
            // A round of 500 rows has its checkpoint; where each row waits for the disk, whose pace others
            // disturb, many short rounds are fairer.
            for (synchronous, rows, rounds) in [("NORMAL", 500, 9), ("FULL", 40, 25)] {
                let name =
                    "recording, \(columns) columns, single-row transactions, WAL, synchronous=\(synchronous)"
                figures += try measure(name, WriteKind.single, rows: rows, rounds: rounds) {
                    try RecordingSubject(
                        $0, table, in: "\(folder)/\(columns)-\(synchronous)-\($0)", synchronous: synchronous)
                }
            }
            let rows = 100_000 / columns
            let name = "recording, \(columns) columns, \(rows) rows in one transaction, WAL, synchronous=NORMAL"
            figures += try measure(name, WriteKind.bulk, rows: rows, rounds: 9) {
                try RecordingSubject($0, table, in: "\(folder)/\(columns)-bulk-\($0)", synchronous: "NORMAL")
            }
        }
        return figures
    }

    private func measure(
        _ name: String, _ kinds: [WriteKind], rows: Int, rounds: Int,
        _ make: (RecordingSubject.Kind) throws -> RecordingSubject
    ) throws -> [Figure] {
        let subjects = try RecordingSubject.Kind.allCases.map(make)
        // By subject, round and kind of write, microseconds a row.
        let times = try Turns.measure(subjects, rounds: rounds) { subject, _ in
            try kinds.map { try subject.time($0, rows: rows) }
        }
        return figures("\(name), processor µs a row", kinds, times, \.processor)
            + figures("\(name), µs a row", kinds, times, \.wall)
    }

    private func figures(
        _ group: String, _ kinds: [WriteKind], _ times: [[[RecordingSubject.Time]]],
        _ clock: (RecordingSubject.Time) -> Double
    ) -> [Figure] {
        RecordingSubject.Kind.allCases.enumerated().dropFirst().flatMap { subject, name in
            kinds.enumerated().map { kind, write in
                let medians = times.map { rounds in Distribution(rounds.map { clock($0[kind]) }).median }
                return Figure(
                    group, "\(write.rawValue), \(name.rawValue)", medians[subject], .microseconds,
                    against: .init(name: "untracked twin", value: medians[0]))
            }
        }
    }
}
