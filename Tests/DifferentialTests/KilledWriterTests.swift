import PersistentHistory
import TestSupport
import Testing

/// A writer killed in the middle of a transaction leaves neither rows nor history of it.
@Suite struct KilledWriterTests {
    @Test(arguments: UInt64(1)...24)
    func nothingIsLeft(seed: UInt64) async throws {
        let folder = try TemporaryFolder(inMemory: true)
        var generator = CaseGenerator(seed)
        let specimen = generator.make()
        let tracked = try Subject(folder.file("tracked"), specimen, isTracked: true)
        let twin = try Subject(folder.file("twin"), specimen, isTracked: false)
        let shapes = try TableShape.all(tracked.observer)
        // SQLite refuses some: without a table a store has no encoding yet.
        if shapes.isEmpty { return }
        try Tracking.track(tracked.path, [:], all: true)
        try twin.keepRowids()

        let statements = specimen.steps.compactMap { step -> String? in
            guard case .sql(_, let sql) = step, !sql.tail.isEmpty || !sql.list.isEmpty else { return nil }
            return sql.text
        }
        let script =
            ["PRAGMA cache_size = 1"] + statements.prefix(6) + ["BEGIN IMMEDIATE"]
            + statements.dropFirst(6).prefix(12)
        try await kill(
            after: ["SELECT history_author('Killed')"] + script, on: tracked.path,
            loading: BuiltProducts.libhistory())
        // The twin's writer goes without a commit.
        do {
            let writer = try Connection(twin.path)
            for sql in script { _ = writer.run(sql) }
        }

        let after = try #require(try Snapshot(shapes, tracked.observer), "seed \(seed)")
        #expect(try after == Snapshot(shapes, twin.observer), "seed \(seed)")
        let oracle = Oracle(
            tables: Dictionary(uniqueKeysWithValues: shapes.map { ($0.name, $0) }), preserved: [:],
            cascades: false)
        let reader = try HistoryReader(path: tracked.path)
        let history = try reader.batch(after: 0, changes: .max)
        #expect(oracle.objects(after: history.transactions) == Set(after.rows.keys), "seed \(seed)")
        #expect(history.transactions.allSatisfy { $0.author == "Killed" }, "seed \(seed)")

        // The next writer is recorded as ever.
        try tracked.connect(specimen.settings)
        let next = try tracked.writer(.first)
        _ = next.run("SELECT history_author('Next')")
        for sql in statements.dropFirst(18).prefix(3) { _ = next.run(sql) }
        let end = try #require(try Snapshot(shapes, tracked.observer), "seed \(seed)")
        let rest = try reader.batch(after: history.end, changes: .max).transactions
        #expect(oracle.objects(after: history.transactions + rest) == Set(end.rows.keys), "seed \(seed)")
        #expect(rest.allSatisfy { $0.author == "Next" }, "seed \(seed)")
        try reader.close()
    }

    /// Runs statements in a shell that kills itself when it has.
    private func kill(after script: [String], on store: String, loading library: String) async throws {
        let lines =
            [".load \(library) sqlite3_history_init"] + script.map { $0 + ";" } + [".shell kill -9 $PPID"]
        let outcome = try await Command("sqlite3", [store], input: lines.joined(separator: "\n") + "\n").run()
        #expect(outcome.status == .killed(signal: 9), "\(outcome)")
    }
}
