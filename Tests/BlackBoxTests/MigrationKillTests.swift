import Foundation
import Glibc
import TestSupport
import Testing

/// Migrations, writers, and kills of the daemon, of historyctl and of its command, in any order: the consumer has had
/// each change or was told of its table, and the replica equals the store.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MigrationKillTests {
    /// Writes rows until a file is there, and notes each with its time.
    private static let writer = """
        connection = connect(store, 'App')
        with open(bench + '/written', 'w') as written:
            number = 0
            while not os.path.exists(bench + '/stop'):
                number += 1
                table, row = random.choice([('person', (number, 'x')), ('item', (f'k{number}', number))])
                columns = 'id, name' if table == 'person' else 'code, price'
                before = int(time.time() * 1000)
                try:
                    connection.execute(f'INSERT INTO {table} ({columns}) VALUES (?, ?)', row)
                except sqlite3.Error:
                    continue  # The table is just being made again.
                print(table, row[0], before, file=written, flush=True)
                time.sleep(0.002)
        """

    private static let commands = [
        """
        CREATE TABLE new (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, age INTEGER);
        INSERT INTO new SELECT * FROM person; DROP TABLE person; ALTER TABLE new RENAME TO person
        """,
        "ALTER TABLE item ADD COLUMN extra; ALTER TABLE item DROP COLUMN extra",
        "UPDATE item SET price = price + 1", "SELECT 1", "ROLLBACK; nonsense",
    ]

    private static let command = """
        import random, sqlite3, sys, time
        time.sleep(random.random() / 10)
        c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
        c.executescript('BEGIN IMMEDIATE;' + sys.argv[2] + ';COMMIT')
        time.sleep(random.random() / 10)
        """

    @Test(arguments: (0..<3).map { _ in UInt64.random(in: 0 ... .max) })
    func kills(_ seed: UInt64) async throws {
        var dice = Seed(seed)
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: #""*""#, authors: StoreSetup.mirrored()))
            var daemon = try await bench.startDaemon()
            let writer = try await bench.startPython(Self.writer, "writer")
            for _ in 1...6 {
                let sql = Self.commands.randomElement(using: &dice) ?? ""
                let migration = try bench.startCtl(
                    ["migrate", bench.store, "--", Products.python, "-c", Self.command, bench.store, sql])
                try await observe(for: .milliseconds(Int.random(in: 0...150, using: &dice)))
                if Bool.random(using: &dice) { migration.signal(SIGKILL) }
                if Bool.random(using: &dice) {
                    daemon.program.signal(SIGKILL)
                    _ = try await daemon.program.end()
                    daemon = try await bench.startDaemon()
                }
                _ = try await migration.end()
            }
            try bench.folder.write("stop", "")
            try await writer.succeed()
            // The last command may outlive its historyctl: the daemon waits for it.
            try await eventually("all triggers", state: { daemon.log.joined(separator: "\n") }) {
                try await bench.sql(
                    "SELECT count(DISTINCT tbl_name) FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'historyd%insert'"
                ) == "2\n"
            }
            try await bench.write("INSERT INTO person (name) VALUES ('last')", as: "App")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
            try await expectAllTold(bench, seed)
        }
    }

    private func expectAllTold(_ bench: Workbench, _ seed: UInt64) async throws {
        let calls = try bench.calls()
        let delivered = Set(
            calls.flatMap { call in call.params.contexts.map { "\($0.entityName ?? "") \($0.key.dropFirst())" }
            })
        let told = Set(calls.filter { $0.params.reason == "recreated" }.compactMap(\.params.after))
        let id = try await bench.id()
        var notices: [(time: Int, entities: String)] = []
        for line in try await bench.sql(
            "SELECT id, origin, detail FROM historyd_change WHERE object = 'recreated'"
        ).wholeLines {
            let parts = line.split(separator: "|").map(String.init)
            #expect(told.contains("\(id):\(parts[0])"), "seed \(seed): \(line)")
            notices.append((Int(parts[1]) ?? 0, parts[2]))
        }
        for line in RunningProgram.text(bench.path("written")).wholeLines {
            let parts = line.split(separator: " ").map(String.init)
            let isTold =
                delivered.contains("\(parts[0]) \(parts[1])")
                || notices.contains { $0.time >= Int(parts[2]) ?? 0 && $0.entities.contains(parts[0]) }
            #expect(isTold, "seed \(seed): \(line) of \(notices)")
        }
    }
}
