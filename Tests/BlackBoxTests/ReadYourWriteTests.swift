import Foundation
import GRDB
import TestSupport
import Testing

/// Who waits for a token finds its rows in every replica of the consumer.
@Suite(.timeLimit(.minutes(60))) struct ReadYourWriteTests {
    private func count(_ path: String) throws -> Int {
        try DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM person") ?? 0 }
    }

    @Test("After wait and run, the replica shows what was committed: few rows, many, and a backlog")
    func shown() async throws {
        try await withWorkbench { bench in
            let replica = bench.path("replica.sqlite")
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            var expected = 0
            for rows in [1, 25_000, 3, 25_000] {
                let token = try await bench.commit(
                    """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
                    INSERT INTO person (name) SELECT 'n' || i FROM n
                    """)
                expected += rows
                if rows == 3 {
                    try await bench.steer("run")
                } else {
                    try await bench.steer("wait", "--consumer", "MainApp", "--token", token)
                }
                #expect(try count(replica) == expected)
            }
            try await daemon.stop()
            // A backlog of more than a batch.
            let token = try await bench.commit("UPDATE person SET name = name || 'x'")
            let next = try await bench.startDaemon()
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token)
            let changed = try await DatabaseQueue(path: replica).read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM person WHERE name LIKE '%x'")
            }
            #expect(changed == expected)
            try await next.stop()
        }
    }
}
