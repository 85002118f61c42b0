/// What recording costs a writer: the same writes to a tracked store and to its untracked twin.
struct RecordingBenchmark {
    private let workplace: Workplace

    init(_ workplace: Workplace) { self.workplace = workplace }

    func run() throws -> [Figure] {
        let folder = try workplace.makeFolder("recording")
        defer { Progress.attempt { try workplace.remove(folder) } }
        var figures: [Figure] = []
        // A round of 500 rows has its checkpoint; where each row waits for the disk, whose pace others
        // disturb, many short rounds are fairer.
        for (synchronous, rows, rounds) in [("NORMAL", 500, 9), ("FULL", 40, 25)] {
            let group = "recording, single-row transactions, WAL, synchronous=\(synchronous), µs each"
            figures += try measure(group, WriteKind.single, rows: rows, rounds: rounds) {
                try RecordingSubject($0, in: "\(folder)/\(synchronous)-\($0)", synchronous: synchronous)
            }
        }
        let group = "recording, 20,000 rows in one transaction, µs a row"
        figures += try measure(group, WriteKind.bulk, rows: 20_000, rounds: 9) {
            try RecordingSubject($0, in: "\(folder)/bulk-\($0)", synchronous: "NORMAL")
        }
        return figures
    }

    private func measure(
        _ group: String, _ kinds: [WriteKind], rows: Int, rounds: Int,
        _ make: (RecordingSubject.Kind) throws -> RecordingSubject
    ) throws -> [Figure] {
        let subjects = try RecordingSubject.Kind.allCases.map(make)
        // By kind of write and by subject, microseconds a row in each round.
        var times = kinds.map { _ in subjects.map { _ in [Double]() } }
        var turns = Turns(subjects.count)
        for round in 0...rounds {
            for subject in turns.next() {
                for (kind, write) in kinds.enumerated() {
                    let time = try subjects[subject].time(write, rows: rows)
                    // The first round warms up.
                    if round > 0 { times[kind][subject].append(time) }
                }
            }
        }
        return RecordingSubject.Kind.allCases.indices.dropFirst().flatMap { subject in
            kinds.indices.map { kind in
                let values = times[kind].map { Distribution($0).median }
                return Figure(
                    group, "\(kinds[kind].rawValue), \(RecordingSubject.Kind.allCases[subject].rawValue)",
                    values[subject],
                    .microseconds, against: .init(name: "untracked twin", value: values[0]))
            }
        }
    }
}

/// In this order: each finds the rows that it needs, and leaves the table as it was.
enum WriteKind: String {
    case insert, update, delete
    /// Compiled each time, and the triggers with it.
    case unprepared = "insert, not prepared"
    case bulkInsert = "inserts"
    case bulkUpdate = "one update"
    case bulkDelete = "one delete"

    static let single = [insert, update, delete, unprepared]
    static let bulk = [bulkInsert, bulkUpdate, bulkDelete]
}
