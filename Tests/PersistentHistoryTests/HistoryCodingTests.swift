import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What is decoded equals what was encoded.
@Suite struct HistoryCodingTests {
    private func again<T: Codable>(_ value: T) throws -> T {
        try JSONDecoder().decode(T.self, from: JSONEncoder().encode(value))
    }

    @Test func urlsOfKeysOfEveryKind() async throws {
        let store = try GatekeeperStore(
            """
            CREATE TABLE t (id BLOB PRIMARY KEY, x, UNIQUE (x)) WITHOUT ROWID;
            CREATE TABLE pair (a TEXT, b REAL, n, PRIMARY KEY (a, b));
            CREATE TABLE free (note TEXT, at DATETIME, id UUID);
            """)
        try Tracking.track(store.path, ["t": ["x"], "pair": ["n"], "free": ["note", "at", "id"]])
        try store.write(
            "A",
            "INSERT INTO t VALUES (x'00ff', 9007199254740993), (1, 1e308 * 10), ('é', CAST(x'ff' AS TEXT))",
            "INSERT INTO pair VALUES ('a', 0.1, NULL), (NULL, NULL, -0.0)", "UPDATE pair SET n = 'u'",
            "INSERT INTO free VALUES ('x', 1, x'00112233445566778899aabbccddeeff')",
            "DELETE FROM t; DELETE FROM pair; DELETE FROM free")
        try store.write(nil, "INSERT INTO free (note) VALUES ('nobody')")
        let reader = try HistoryReader(path: store.path)
        let batch = try reader.batch(after: 0)
        try reader.close()
        #expect(batch.transactions.count == 6)
        for transaction in batch.transactions {
            for change in transaction.changes {
                let context = HookContext(change, of: transaction)
                let url = try #require(ObjectIDURL(context.objectIDURL.absoluteString))
                #expect(try again(url) == url && url.description == context.objectIDURL.absoluteString)
                #expect(url.objectID(in: change.entity) == change.objectID)
            }
        }
    }

    @Test func timesOfEveryYear() throws {
        let range = HistoryTimestamp.range
        for milliseconds in [0, -1, 1_700_000_000_123, range.lowerBound, range.upperBound, 253_402_300_800_000]
        {
            let time = HistoryTimestamp(milliseconds: milliseconds)
            #expect(try again([time]) == [time])
        }
        #expect(
            try JSONEncoder().encode([HistoryTimestamp(milliseconds: 1)])
                == Data(#"["1970-01-01T00:00:00.001Z"]"#.utf8))
    }

    @Test func tokensAreTextAndInTheOrderOfTheCommits() throws {
        let (store, other) = (StoreID(UUID()), StoreID(UUID()))
        let tokens = [3, 1, 2].map { HistoryToken(store: store, number: $0) }
        #expect(tokens.sorted().map(\.number) == [1, 2, 3])
        #expect(tokens.max() == tokens[0])
        let foreign = HistoryToken(store: other, number: 2)
        #expect((foreign < tokens[0]) != (tokens[0] < foreign))
        #expect((foreign < tokens[0]) == (foreign < tokens[1]), "two stores' tokens do not mix")
        #expect(try JSONEncoder().encode([tokens[0]]) == Data("[\"\(store):3\"]".utf8))
        #expect(try again(tokens) == tokens)
        #expect(throws: DecodingError.self) {
            _ = try JSONDecoder().decode([HistoryToken].self, from: Data(#"["none:1"]"#.utf8))
        }
    }

    @Test func settings() throws {
        let policy = FailurePolicy(attempts: 3, afterLastAttempt: .skip)
        #expect(try again(policy) == policy)
        for strategy in [CleaningStrategy.none, .byDuration(.seconds(7)), .byNotification(times: 2)] {
            #expect(try again(strategy) == strategy)
        }
        let rule = DeliveryRule(authors: ["A"], deliversUnlisted: false, mirroringAuthors: ["M"])
        #expect(try again(rule) == rule)
        let token = HistoryToken(store: StoreID(UUID()), number: 1)
        let expiry = Expiry(reason: .late, lost: nil, after: token)
        #expect(try again(expiry) == expiry)
        #expect(try again(MergeResult.rejecting([token])) == .rejecting([token]))
    }
}
