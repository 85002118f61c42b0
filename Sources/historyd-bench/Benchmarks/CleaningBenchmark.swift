import ArgumentParser
import Dispatch
import Glibc
import PersistentHistory

/// What a writer feels of a cleanup: the time of its commits with and without one going on, in turns.
struct CleaningBenchmark {
    private let workplace: Workplace
    private let changes: Int
    private let commits: Int

    init(_ workplace: Workplace, _ sizes: Sizes) {
        self.workplace = workplace
        changes = sizes.cleaned
        commits = sizes.commits
    }

    /// The time from one commit to the next.
    private static let pace: UInt32 = 2000

    func run() throws -> [Figure] {
        let folder = try workplace.makeFolder("cleaning")
        defer { Progress.attempt { try workplace.remove(folder) } }
        let store = folder + "/store.sqlite"
        try fill(store)
        var figures: [Figure] = []
        for synchronous in ["NORMAL", "FULL"] {
            let writer = try StoreWriter(store, synchronous: synchronous)
            var times: [[Double]] = [[], []]
            // The first round warms up.
            for round in 0..<9 {
                let isCleaning = round.isMultiple(of: 2)
                let cleaner =
                    isCleaning ? try Child([CommandLine.arguments[0], "clean", store]) : nil
                let cleaned = try Self.cleaned(store)
                if isCleaning { Clock.pause(microseconds: 200_000) }
                for _ in 0..<commits {
                    let start = Clock.now
                    let time = Double(try writer.commit() - start) / 1000
                    if round > 0 { times[isCleaning ? 1 : 0].append(time) }
                    Clock.pause(microseconds: Self.pace)
                }
                cleaner?.end()
                if isCleaning, try Self.cleaned(store) == cleaned {
                    throw BenchError("Nothing was cleaned meanwhile.")
                }
            }
            let group =
                "a writer's commit while \(NumberText.text(Double(changes))) changes are cleaned, WAL, synchronous=\(synchronous), µs"
            let (without, with) = (Distribution(times[0]), Distribution(times[1]))
            for (name, share) in [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                figures.append(
                    Figure(
                        group, name, with.quantile(share), .microseconds,
                        against: .init(name: "without", value: without.quantile(share))))
            }
        }
        return figures + [try rest(store)]
    }

    /// How far the cleaning got.
    private static func cleaned(_ store: String) throws -> Int64 {
        try Connection(store).number(
            "SELECT coalesce((SELECT value FROM historyd_store WHERE key = 'cleaned'), 0)")
    }

    /// Changes that cost little space otherwise: a few rows, updated over and over.
    private func fill(_ store: String) throws {
        try BenchStore.make(store)
        let writer = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<1000 { _ = try writer.commit() }
        let connection = try Connection(store)
        try connection.execute("PRAGMA synchronous = OFF")
        try connection.declareAuthor(BenchStore.writer)
        for _ in 0..<(changes / 1000) { try connection.execute("UPDATE item SET quantity = quantity + 1") }
    }

    /// What is left is deleted where nobody else writes.
    private func rest(_ store: String) throws -> Figure {
        let count = try Connection(store).number("SELECT count(*) FROM historyd_change")
        let start = Clock.now
        _ = try Child([CommandLine.arguments[0], "clean", store]).waitForEnd()
        let seconds = Double(Clock.now - start) / 1e9
        return Figure("cleaning", "changes deleted where nobody writes", Double(count) / seconds, .perSecond)
    }
}

/// Cleans a store of everything.
struct CleanCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clean", abstract: "Deletes a store's history.", shouldDisplay: false)

    @Argument var store: String

    func run() {
        // As in `IdleCommand`: it becomes asynchronous only here.
        Task {
            do {
                _ = try await HistoryCleaner(path: store, rule: DeliveryRule(authors: [])).clean(through: .max)
                Glibc.exit(0)
            } catch {
                Progress.note("\(error)")
                Glibc.exit(1)
            }
        }
        dispatchMain()
    }
}
