import GRDB

/// Where consumers are: saved at once, or with others later.
extension StateDatabase {
    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    public func cursor(of consumer: String) throws -> Cursor? {
        try access { db in
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql: "SELECT consumer, number, moved_at, served, mark FROM cursor WHERE consumer = ?"),
                arguments: [consumer])
            let saved = unsaved.withLock { $0[consumer] } ?? row.map { Cursor($0) }
            guard let resting = resting.cursor(of: consumer) else { return saved }
            guard let saved else { return resting }
            return resting.number > saved.number ? resting : saved
        }
    }

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
            uniqueKeysWithValues: rows.map { row in (row["consumer"] as String, Cursor(row)) })
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
            let taken = cursors
            // Also of those who were woken and could not go on yet.
            let place = resting.place(ifAfter: restingSaved.withLock { $0 })
            if place != nil { cursors.merge(resting.cursors) { $1 } }
            guard !cursors.isEmpty else { return }
            do {
                try db.inTransaction {
                    for (consumer, cursor) in cursors { try save(cursor, of: consumer, db) }
                    return .commit
                }
            } catch {
                // Saved another time; what has moved on meanwhile has moved further.
                unsaved.withLock { $0.merge(taken) { newer, _ in newer } }
                throw error
            }
            if let place { restingSaved.withLock { $0 = place } }
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

extension Cursor {
    fileprivate init(_ row: Row) {
        self.init(
            number: row["number"], movedAt: HistoryTimestamp(milliseconds: row["moved_at"]),
            movedAtServed: .milliseconds(row["served"] as Int64), mark: row["mark"])
    }
}
