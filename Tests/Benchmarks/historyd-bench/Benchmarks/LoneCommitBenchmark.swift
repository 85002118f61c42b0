/// How many instructions a daemon at rest executes for a commit, until it rests again.
struct LoneCommitBenchmark: Benchmark {
    /// Until all that follows a commit is done, under valgrind too, in microseconds.
    private static let pause: UInt32 = 150_000
    /// The difference between two runs is that of so many commits.
    private static let commits = (few: 10, more: 50)

    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        let rounds = 0..<min(sizes.rounds, 3)
        let consumer = try rounds.map { _ in try difference { try countConsumer(commits: $0) } }
        return try [("a lone commit", true), ("a lone commit of a writer without an author", false)]
            .map { name, isDeclared in
                let daemon = try rounds.map { _ in
                    try difference { try countDaemon(commits: $0, isDeclared: isDeclared) }
                }
                return Figure(
                    InstructionCounter.group, name, rounds: daemon, .count,
                    against: .init(name: ObserverField.consumerAndPlugin, rounds: consumer),
                    aim: isDeclared ? .atMost(65_000) : nil)
            }
    }

    private func difference(_ count: (Int) throws -> Double) throws -> Double {
        let few = try count(Self.commits.few)
        return (try count(Self.commits.more) - few) / Double(Self.commits.more - Self.commits.few)
    }

    private func countDaemon(commits: Int, isDeclared: Bool) throws -> Double {
        let folder = try workplace.makeFolder()
        let counter = try InstructionCounter(workplace, in: folder)
        let store = try makeStore(in: folder, isDeclared: isDeclared)
        return try counter.count { command in
            let daemon = try DaemonProcess(
                workplace, DaemonSetup(stores: [.init(store.path)]), program: command + [counter.historyd],
                environment: counter.environment)
            try commit(commits, store.writer, daemon.stamps)
            daemon.end()
        }
    }

    private func countConsumer(commits: Int) throws -> Double {
        let folder = try workplace.makeFolder()
        let counter = try InstructionCounter(workplace, in: folder)
        let store = try makeStore(in: folder, isDeclared: true)
        return try counter.count { command in
            let consumer = try ConsumerProcess(.watch, store.path, workplace, plugin: true, under: command)
            try commit(commits, store.writer, consumer.stamps)
            consumer.end()
        }
    }

    private func makeStore(in folder: String, isDeclared: Bool) throws -> (path: String, writer: StoreWriter) {
        let path = "\(folder)/store.sqlite"
        try BenchStore.make(path)
        return (path, try StoreWriter(path, synchronous: "NORMAL", isDeclared: isDeclared))
    }

    private func commit(_ count: Int, _ writer: StoreWriter, _ stamps: StampReader) throws {
        for _ in 0..<count {
            _ = try writer.commit()
            while try stamps.next().object < writer.last {}
            Clock.pause(microseconds: Self.pause)
        }
    }
}
