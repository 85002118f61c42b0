import GRDB

/// Where consumers are: saved at once, or with others later.
extension StateDatabase {
    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    public func cursor(of consumer: String) throws -> Cursor? { try cursors()[consumer] }

    /// All cursors, by consumer, those included that are not saved yet.
    public func cursors() throws -> [String: Cursor] {
        try access { db in
            try savedCursors(db).merging(unsaved.withLock { $0 }) { $1 }
                .merging(resting.cursors) { $1.number > $0.number ? $1 : $0 }
        }
    }

    /// Saves what is not saved yet, and gives all cursors, by consumer, as they are found after a crash: no history
    /// may be deleted that comes after them.
    func savedCursors() throws -> [String: Cursor] {
        try saveAll()
        return try access { db in try savedCursors(db) }
    }

    private func savedCursors(_ db: Database) throws -> [String: Cursor] {
        let rows = try Row.fetchAll(
            try db.cachedStatement(sql: "SELECT consumer, number, moved_at, served, mark FROM cursor"))
        return Dictionary(
            uniqueKeysWithValues: rows.map { row in
                let moved = HistoryTimestamp(milliseconds: row["moved_at"])
                let served = Duration.milliseconds(row["served"] as Int64)
                return (
                    row["consumer"] as String,
                    Cursor(number: row["number"], movedAt: moved, movedAtServed: served, mark: row["mark"])
                )
            })
    }

    public func save(_ cursor: Cursor, of consumer: String) throws {
        try access { db in
            unsaved.withLock { $0[consumer] = nil }
            try save(cursor, of: consumer, db)
        }
    }

    /// Moves a cursor past what its consumer has nothing to do with. It is saved with others later: to
    /// find once more that there is nothing to do is cheaper than a write for each commit of somebody else.
    func pass(_ cursor: Cursor, of consumer: String) {
        let cursor = Cursor(
            number: cursor.number, movedAt: cursor.movedAt, movedAtServed: served, mark: cursor.mark)
        let isFirst = unsaved.withLock { unsaved in
            defer { unsaved[consumer] = cursor }
            return unsaved.isEmpty
        }
        if isFirst { hasUnsaved.ring() }
    }

    /// Saves what is not saved yet.
    public func saveAll() throws {
        // They are taken when it is the database's turn: what is saved at once meanwhile comes after them.
        try access { db in
            var cursors = unsaved.withLock { unsaved in
                defer { unsaved = [:] }
                return unsaved
            }
            // Also of those who were woken and could not go on yet.
            if let place = resting.place(ifAfter: restingSaved.withLock { $0 }) {
                cursors.merge(resting.cursors) { $1 }
                restingSaved.withLock { $0 = place }
            }
            guard !cursors.isEmpty else { return }
            try db.inTransaction {
                for (consumer, cursor) in cursors { try save(cursor, of: consumer, db) }
                return .commit
            }
        }
    }

    /// Lets what was saved until now outlive a power failure: with `synchronous=NORMAL` that is a checkpoint's
    /// work (https://www.sqlite.org/pragma.html#pragma_synchronous).
    func bringToDisk() throws { try access { db in _ = try db.checkpoint(.passive) } }

    func save(_ cursor: Cursor, of consumer: String, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO cursor VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = excluded.number,
                moved_at = excluded.moved_at, served = excluded.served, mark = excluded.mark
                """
        ).execute(
            arguments: [
                consumer, cursor.number, cursor.movedAt.milliseconds, served.milliseconds, cursor.mark,
            ])
    }

    /// How far a consumer's last batch went, which it may not have come to the end of.
    public func fetched(of consumer: String) throws -> Int64 {
        try access { db in
            try Int64.fetchOne(db, sql: "SELECT number FROM fetched WHERE consumer = ?", arguments: [consumer])
                ?? 0
        }
    }

    public func saveFetched(_ number: Int64, of consumer: String) throws {
        try access { db in
            try db.cachedStatement(
                sql: "INSERT INTO fetched VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number"
            )
            .execute(arguments: [consumer, number])
        }
    }
}
