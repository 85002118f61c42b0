import Foundation
import GRDB
import TestSupport
import Testing

@testable import HistoryFeed
@testable import PersistentHistory

/// Rows that a feed sends with its objects.
@Suite struct FeedValuesTests {
    private static let schema = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, data BLOB, twice AS (id * 2), size AS (length(name)) STORED);
        CREATE TABLE item (code TEXT COLLATE NOCASE, number, price REAL, PRIMARY KEY (code, number)) WITHOUT ROWID;
        CREATE TABLE loose (a, "9e999 \\ b");
        CREATE TABLE strict (k BLOB PRIMARY KEY NOT NULL, v ANY) STRICT;
        CREATE TABLE real_key (k REAL PRIMARY KEY NOT NULL, v);
        """
    private static let tables = [
        "person": ["id", "name", "data"], "item": ["code", "number", "price"],
        "loose": ["rowid", "a", "9e999 \\ b"], "strict": ["k", "v"], "real_key": ["k", "v"],
    ]

    @Test(
        "The values of a feed make an empty copy equal to the store",
        arguments: [373724, UInt64.random(in: 3...1_000_000)])
    func copies(_ number: UInt64) async throws {
        var seed = Seed(number)
        print("feed's values: \(seed)")
        let store = try GatekeeperStore(Self.schema)
        let context = FeedContext(
            name: "live", window: Int.random(in: 1...20, using: &seed), maximumValueBytes: 1 << 20)
        var served = store.served(["Main"], feeds: ["Main": [context]])
        // One in which a transaction is large, and a part of it has so many objects.
        served.partSize = [1, 7, 40, 80, 10_000].randomElement(using: &seed) ?? 40
        let copy = try FeedCopy(Self.schema, FeedID(consumer: "Main", context: "live"))
        for _ in 0..<8 {
            try Self.write(to: store, &seed)
            try await store.serve(served)
            // The feed's rows are then newer than what it was sent.
            if Bool.random(using: &seed) { try Self.write(to: store, &seed) }
            try await copy.follow(served, store.folder.path, most: Int.random(in: 0...30, using: &seed))
        }
        try await store.serve(served)
        try await copy.follow(served, store.folder.path, most: .max)
        for (table, columns) in Self.tables {
            #expect(try copy.rows(table, columns) == Self.rows(store.path, table, columns), "\(seed) \(table)")
        }
        #expect(copy.rowsReceived > 0)
    }

    private static func rows(_ path: String, _ table: String, _ columns: [String]) throws -> [String] {
        try GatekeeperStore.read(path) { try FeedCopy.rows($0, table, columns) }
    }

    private static let values = [
        "NULL", "0", "3", "3.0", "-0.0", "9223372036854775807", "-9223372036854775808", "1e300", "9e999",
        "-9e999",
        "0.1", "''", "'text'", "'nul' || char(0) || 'inside'", "'ä\"\\' || char(10) || '😀'",
        "CAST(x'ff80' AS TEXT)",
        "x''", "x'00ff'", "randomblob(3000)", "'{\"base64\":\"\"}'", "'-9e999'",
    ]

    private static func write(to store: GatekeeperStore, _ seed: inout Seed) throws {
        for _ in 0..<Int.random(in: 1...6, using: &seed) {
            var script = ""
            for _ in 0..<Int.random(in: 1...12, using: &seed) { script += statement(&seed) + ";\n" }
            try store.write(["App", "Tool", nil].randomElement(using: &seed) ?? nil, script)
        }
    }

    private static func statement(_ seed: inout Seed) -> String {
        let id = Int.random(in: 1...30, using: &seed)
        let value = values.randomElement(using: &seed) ?? "NULL"
        let code = ["'a'", "'A'", "'b'", "'x' || char(0)"].randomElement(using: &seed) ?? "'a'"
        switch Int.random(in: 0..<12, using: &seed) {
        case 0, 1: return "INSERT OR REPLACE INTO person (id, name, data) VALUES (\(id), \(value), \(value))"
        case 2: return "UPDATE OR IGNORE person SET id = id + 1, data = \(value) WHERE id > \(id)"
        case 3: return "DELETE FROM person WHERE id % 7 = \(id % 7)"
        case 4: return "INSERT OR REPLACE INTO item VALUES (\(code), \(id % 5), \(value))"
        case 5: return "DELETE FROM item WHERE number > \(id % 5)"
        case 6: return "INSERT INTO loose VALUES (\(value), \(id))"
        case 7: return "UPDATE loose SET a = \(value) WHERE rowid % 3 = \(id % 3)"
        case 8: return "DELETE FROM loose WHERE rowid % 5 = \(id % 5)"
        case 9: return "INSERT OR REPLACE INTO strict VALUES (CAST('\(id % 4)' AS BLOB), \(value))"
        case 10:
            return
                "INSERT OR REPLACE INTO real_key VALUES (\(["1.5", "0.0", "9e999", "-1e-300"].randomElement(using: &seed) ?? "1"), \(value))"
        default:
            return """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT OR IGNORE INTO person (id) SELECT i FROM n
                """
        }
    }
}

/// A program at a feed that keeps copies of the rows.
private final class FeedCopy {
    private let queue: DatabaseQueue
    private let feed: FeedID
    private(set) var rowsReceived = 0

    init(_ schema: String, _ feed: FeedID) throws {
        queue = try DatabaseQueue()
        self.feed = feed
        try queue.write { try $0.execute(sql: schema) }
    }

    /// Connects, takes so many lines, and acknowledges what is whole.
    func follow(_ store: ServedStore, _ folder: String, most: Int) async throws {
        let feeds = try OpenFeeds(store, folder)
        defer { feeds.close() }
        let (keeper, fetcher) = (feeds.keeper, feeds.fetcher)
        var stream = FeedStream(feed)
        var count = 0
        while count < most {
            switch try await stream.step(keeper, fetcher) {
            case .again: continue
            case .idle: return
            case .lines(let bytes):
                for line in bytes.split(separator: UInt8(ascii: "\n")) {
                    count += 1
                    guard case .transaction(let transaction) = try FeedLine(line) else { continue }
                    #expect(transaction.valuesAt.map { $0.number >= transaction.token.number } == true)
                    try take(transaction)
                    if transaction.isWhole { _ = try keeper.acknowledge(transaction.token, of: feed) }
                }
            }
        }
    }

    private func take(_ transaction: FeedTransaction) throws {
        rowsReceived += transaction.values.count
        try queue.write { db in
            for object in transaction.deletedObjectIDs { try remove(object, db) }
            for object in transaction.insertedObjectIDs + transaction.updatedObjectIDs {
                if let row = transaction.values[object] {
                    try put(row, object, db)
                } else {
                    try remove(object, db)
                }
            }
        }
    }

    private func put(_ row: FeedRow, _ object: FeedObjectID, _ db: Database) throws {
        #expect(row.cutValues.isEmpty)
        var values = row.values
        // The rowid is no column.
        if let rowid = object.objectID["rowid"] { values["rowid"] = rowid }
        let columns = values.keys.sorted()
        let statement = try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO "\(object.entityName)" (\(columns.map { SQLText.name($0.text) }.joined(separator: ", ")))
                VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))
                """)
        try statement.write(db, columns.map { values[$0] ?? .null })
    }

    private func remove(_ object: FeedObjectID, _ db: Database) throws {
        let columns = object.objectID.keys.sorted()
        let statement = try db.cachedStatement(
            sql: """
                DELETE FROM "\(object.entityName)"
                WHERE \(columns.map { "\(SQLText.name($0.text)) IS ?" }.joined(separator: " AND "))
                """)
        try statement.write(db, columns.map { object.objectID[$0] ?? .null })
    }

    func rows(_ table: String, _ columns: [String]) throws -> [String] {
        try queue.read { try Self.rows($0, table, columns) }
    }

    /// Each row byte by byte.
    static func rows(_ db: Database, _ table: String, _ columns: [String]) throws -> [String] {
        let values = columns.map { column in
            let name = SQLText.name(column)
            return
                "typeof(\(name)) || ' ' || CASE typeof(\(name)) WHEN 'real' THEN printf('%!.17g', \(name)) ELSE hex(\(name)) END"
        }
        return try String.fetchAll(
            db, sql: "SELECT \(values.joined(separator: " || ', ' || ")) FROM \"\(table)\" ORDER BY 1")
    }
}
