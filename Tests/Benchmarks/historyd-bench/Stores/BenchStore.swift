/// A store with one table, as the benchmarks write to it.
enum BenchStore {
    enum Journal: String {
        case wal, delete
    }

    static let table = "item"
    static let writer = "Writer"
    static let reader = "Reader"
    static let insert =
        "INSERT INTO item VALUES (?1, 'name of ' || ?1, 'a text of some length, as texts are', ?1)"

    /// Its changes are recorded, and deleted rows' names are preserved.
    static func make(_ path: String, _ journal: Journal = .wal) throws {
        let connection = try Connection(path)
        try connection.execute(
            """
            PRAGMA journal_mode = \(journal.rawValue);
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, quantity INTEGER NOT NULL);
            """)
        try track(path, preserving: "name")
    }

    /// Has the table's changes recorded, and a column's value kept when a row is deleted.
    static func track(_ path: String, preserving column: String) throws(BenchError) {
        try Child.run([
            Workplace.program("historyctl"), "track", path, table, "--preserve", "\(table).\(column)",
        ])
    }

    /// Makes a long history cheaply: written into its table as the triggers write it (see "How changes lie in
    /// the store"), all of it by the one author to whom it need not be delivered.
    static func fillHistory(of path: String, transactions: Int) throws {
        let connection = try Connection(path)
        try connection.execute(
            """
            PRAGMA synchronous = OFF;
            WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < \(transactions))
            INSERT INTO historyd_change (origin, kind, object, detail)
            SELECT format('%016x', n) || tab || 1000 || tab || (1767225600000 + n) || tab || '\(reader)', kind, n, NULL
            FROM number, (SELECT shape * 4 AS kind, char(9) AS tab FROM historyd_entity LIMIT 1);
            PRAGMA wal_checkpoint(TRUNCATE);
            """)
    }
}
