import Foundation
import Testing

/// Each commit is delivered by itself: no later write is needed to notice it.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct WakeUpTests {
    /// The writer commits, waits for the plugin to tell of it, and commits again. A commit that is
    /// not noticed is never followed by another.
    @Test("No commit waits for the next one", arguments: [(Journal.wal, 2000), (.delete, 500)])
    func everyCommit(_ journal: Journal, _ count: Int) async throws {
        try await withWorkbench(journal) { bench in
            let fifo = bench.path("told")
            #expect(mkfifo(fifo, 0o600) == 0)
            try bench.configure(StoreSetup(), plugins: [PluginSetup(environment: ["TELL": fifo])])
            // What is written before the store is tracked is nobody's to tell.
            let daemon = try await bench.startDaemon()
            let writer = try await bench.startPython(
                """
                told = os.open(bench + '/told', os.O_RDONLY)
                connection = connect(store, 'Widget', None, 'synchronous = FULL')
                for number in range(1, \(count) + 1):
                    connection.execute('INSERT INTO person (id) VALUES (?)', (number,))
                    if not select.select([told], [], [], 30)[0]: sys.exit(f'Commit {number} was not delivered.')
                    os.read(told, 1)
                """)
            try await writer.succeed(within: .seconds(240))
            try await daemon.stop()
            let calls = try bench.calls()
            #expect(calls.map { $0.params.contexts.map(\.key) } == (1...count).map { ["p\($0)"] })
        }
    }
}
