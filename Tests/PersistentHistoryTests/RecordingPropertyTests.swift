import Foundation
import GRDB
import PersistentHistory
import TestSupport
import Testing

/// Whatever SQL ran, the history is a sequence that could have happened, and a copy made from it
/// equals the store.
@Suite(.serialized) struct RecordingPropertyTests {
    static let schemas = [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b COLLATE NOCASE, c INTEGER)",
        "CREATE TABLE t (id TEXT PRIMARY KEY, a UNIQUE, b, c INTEGER)",
        "CREATE TABLE t (id, a UNIQUE, b, c)",
        "CREATE TABLE t (id, a, b, c, PRIMARY KEY (id, a))",
        "CREATE TABLE t (id, a, b, c UNIQUE, PRIMARY KEY (id, a)) WITHOUT ROWID",
        "CREATE TABLE t (id INTEGER, a REAL, b BLOB, c ANY, PRIMARY KEY (id), UNIQUE (a, c)) STRICT",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c, d AS (a || b) STORED, e AS (c + 1)); CREATE UNIQUE INDEX i ON t (lower(a), c DESC) WHERE b IS NOT NULL; CREATE UNIQUE INDEX j ON t (e)",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)",
        "CREATE TABLE t (id TEXT COLLATE NOCASE, a, b, c, PRIMARY KEY (id DESC)) WITHOUT ROWID",
        "CREATE TABLE t (rowid TEXT, id INTEGER NOT NULL, a, b, c, UNIQUE (id, b))",
    ]

    @Test(arguments: schemas.indices, 0..<8)
    func copyEqualsStore(schema: Int, seed: Int) throws {
        let folder = try TemporaryFolder()
        var random = Seed(UInt64(schema * 1000 + seed))
        let path = folder.file("s.sqlite")
        var plain = Configuration()
        plain.foreignKeysEnabled = false
        let undeclared = try DatabaseQueue(path: path, configuration: plain)
        try undeclared.writeWithoutTransaction { db in
            if seed % 2 == 0 { try db.execute(sql: "PRAGMA journal_mode = wal") }
            try db.execute(sql: Self.schemas[schema])
            if seed % 3 == 0 { try db.execute(sql: "PRAGMA recursive_triggers = ON") }
            if seed % 4 == 0 { try db.execute(sql: "PRAGMA trusted_schema = OFF") }
            try db.execute(sql: "PRAGMA cell_size_check = ON")
        }
        var declaring = plain
        declaring.prepareDatabase { db in
            try db.installHistory()
            try db.declareAuthor("Writer")
        }
        let declared = try DatabaseQueue(path: path, configuration: declaring)
        #expect(try Tracking.track(path, ["t": nil]).added == ["t"])
        #expect(try Tracking.track(path, ["t": nil]).isEmpty)

        var script: [String] = []
        for _ in 0..<60 {
            let queue = Bool.random(using: &random) ? declared : undeclared
            try queue.writeWithoutTransaction { db in
                let depth = Int.random(in: 0...3, using: &random)
                if depth > 0 { try db.execute(sql: "BEGIN") }
                for _ in 0...depth {
                    let sql = Statements.random(&random, savepoints: depth > 0)
                    script.append(sql)
                    // A statement that fails must leave no trace; what it does is SQLite's affair.
                    do { try db.execute(sql: sql) } catch is DatabaseError {}
                }
                if db.isInsideTransaction {
                    try db.execute(sql: Int.random(in: 0..<5, using: &random) == 0 ? "ROLLBACK" : "COMMIT")
                }
            }
        }

        let transactions = try allTransactions(path)
        let present = try undeclared.read { db in
            let columns = try Row.fetchAll(db, sql: "SELECT * FROM pragma_table_xinfo('t')").filter {
                ($0["pk"] as Int) > 0
            }
            .sorted { ($0["pk"] as Int) < ($1["pk"] as Int) }.map { $0["name"] as String }
            let key = (columns.isEmpty ? ["oid"] : columns.map { "\"\($0)\"" }).joined(separator: ", ")
            let rows = try Row.fetchAll(
                db, sql: "SELECT \(key) \(Self.schemas[schema].contains("WITHOUT") ? "" : ", oid") FROM t")
            return Set(
                rows.map { row -> [DatabaseValue] in
                    let values = Array(row.databaseValues)
                    if columns.isEmpty { return [values[0]] }
                    let parts = Array(values.prefix(columns.count))
                    return parts.contains { $0.isNull }
                        ? ["rowid".databaseValue, values[columns.count]] : parts
                })
        }
        #expect(Replay(transactions).objects == present, "\(random)\n\(script.joined(separator: ";\n"))")
        #expect(Replay(transactions).problems == [], "\(random)\n\(script.joined(separator: ";\n"))")
    }

    private func allTransactions(_ path: String) throws -> [HistoryTransaction] {
        let reader = try HistoryReader(path: path)
        var all: [HistoryTransaction] = []
        var end: Int64 = 0
        while true {
            let batch = try reader.batch(after: end, changes: 7)
            all += batch.transactions
            end = batch.end
            if batch.isLast { return all }
        }
    }
}

/// Plays changes on a set of objects: an insert of what is there, or an update or delete of what
/// is not, can not have happened.
private struct Replay {
    private(set) var objects: Set<[DatabaseValue]> = []
    private(set) var problems: [String] = []

    init(_ transactions: [HistoryTransaction]) {
        for transaction in transactions {
            for change in transaction.changes {
                var object = change.objectID.values.map(\.databaseValue)
                if change.objectID.isRowID, change.entity.key != .rowid {
                    object.insert("rowid".databaseValue, at: 0)
                }
                let isThere = objects.contains(object)
                switch change.operation {
                case .insert where !isThere: objects.insert(object)
                case .delete where isThere: objects.remove(object)
                case .update where isThere: break
                default: problems.append("\(change.operation) of \(object) in \(transaction.token)")
                }
            }
        }
    }
}

extension HistoryValue {
    fileprivate var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let value): value.databaseValue
        case .blob(let value): value.withUnsafeBytes { Data($0) }.databaseValue
        }
    }
}

private enum Statements {
    static func value(_ random: inout Seed) -> String {
        [
            "NULL", "1", "2", "3", "4", "5", "'a'", "'A'", "'b'", "x'61'", "1.0", "2.5", "''", "'é'',x'", "-1",
            "9e99",
        ]
        .randomElement(using: &random) ?? "1"
    }

    static func random(_ random: inout Seed, savepoints: Bool) -> String {
        func values() -> String { (0..<4).map { _ in value(&random) }.joined(separator: ", ") }
        let or =
            ["", "", "OR REPLACE ", "OR REPLACE ", "OR IGNORE ", "OR FAIL ", "OR ABORT ", "OR ROLLBACK "]
            .randomElement(using: &random) ?? ""
        let column = ["id", "a", "b", "c"].randomElement(using: &random) ?? "a"
        let rows = (0...Int.random(in: 0..<3, using: &random)).map { _ in "(\(values()))" }.joined(
            separator: ", ")
        switch Int.random(in: 0..<14, using: &random) {
        case 0...4: return "INSERT \(or)INTO t (id, a, b, c) VALUES \(rows)"
        case 5:
            return
                "INSERT \(or)INTO t (a, b, c) VALUES (\(value(&random)), \(value(&random)), \(value(&random)))"
        case 6:
            return
                "INSERT INTO t (id, a, b, c) VALUES \(rows) ON CONFLICT DO UPDATE SET \(column) = excluded.\(column), b = 'upsert'"
        case 7: return "INSERT INTO t (id, a, b, c) VALUES \(rows) ON CONFLICT DO NOTHING"
        case 8...10:
            return
                "UPDATE \(or)t SET \(column) = \(value(&random)) WHERE \(["c < 3", "1", "id = 2", "a IS NULL"].randomElement(using: &random) ?? "1")"
        case 11: return "DELETE FROM t WHERE \(column) IS \(value(&random))"
        case 12 where savepoints:
            return ["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "SAVEPOINT s"].randomElement(using: &random)
                ?? ""
        case 13 where savepoints: return "UPDATE t SET b = b"
        case 13: return "VACUUM"
        default:
            return "UPDATE \(or)t SET id = \(value(&random)), a = \(value(&random)) WHERE c = \(value(&random))"
        }
    }
}
