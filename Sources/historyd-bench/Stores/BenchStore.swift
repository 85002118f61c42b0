import PersistentHistory

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

    /// - Parameter tracked: Whether its changes are recorded; deleted rows' names are preserved.
    static func make(_ path: String, _ journal: Journal = .wal, tracked: Bool = true) throws {
        let connection = try Connection(path)
        try connection.execute(
            """
            PRAGMA journal_mode = \(journal.rawValue);
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, quantity INTEGER NOT NULL);
            """)
        if tracked { try Tracking.track(path, [table: ["name"]]) }
    }
}
