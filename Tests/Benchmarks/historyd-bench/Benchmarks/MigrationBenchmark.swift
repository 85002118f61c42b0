import ArgumentParser

/// How long changes go unrecorded after a table was rebuilt, while a writer commits without a pause: until the daemon
/// has created the triggers again.
struct MigrationBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        try [BenchStore.Journal.wal, .delete].map { journal in
            let folder = try workplace.makeFolder()
            let store = "\(folder)/store"
            try BenchStore.make(store, journal)
            let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(store)], hooks: []))
            defer { daemon.end() }
            let rounds = try (0..<sizes.rounds).map { _ in try untilRecorded(store) }
            return Figure(
                "migration",
                "from a table's rebuild to its triggers, under a writer without pauses, \(journal.rawValue)",
                rounds: rounds, .milliseconds)
        }
    }

    private func untilRecorded(_ store: String) throws -> Double {
        let connection = try Connection(store)
        let writer = try Child([Workplace.bench, "write", store])
        defer { writer.end() }
        Clock.pause(microseconds: 200_000)
        connection.waitForLocks(milliseconds: 0)
        try retrying { try connection.execute("BEGIN IMMEDIATE") }
        try connection.execute(
            """
            CREATE TABLE new (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, quantity INTEGER NOT NULL);
            INSERT INTO new SELECT * FROM item; DROP TABLE item; ALTER TABLE new RENAME TO item;
            """)
        try retrying { try connection.execute("COMMIT") }
        let start = Clock.now
        try retrying {
            guard try connection.number("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'") > 0 else {
                throw BenchError("The triggers did not return.")
            }
        }
        return Double(Clock.now - start) / 1e6
    }

    /// Tries again what fails, for a minute. SQLite's busy handler sleeps for up to 100 ms between its attempts, and
    /// the writer releases the lock for microseconds only.
    private func retrying(_ body: () throws -> Void) throws {
        let end = Clock.now + 60_000_000_000
        while true {
            do {
                return try body()
            } catch {
                guard Clock.now < end else { throw error }
                Clock.pause(microseconds: 20)
            }
        }
    }
}

/// Writes to a store without a pause until it is stopped.
struct WriteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "write", abstract: "Writes to a store without a pause.", shouldDisplay: false)

    @Argument var store: String

    func run() throws {
        let writer = try StoreWriter(store, synchronous: "NORMAL")
        while true { _ = try writer.commit() }
    }
}
