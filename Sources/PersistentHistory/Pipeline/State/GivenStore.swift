import GRDB

/// How far changes were given to contexts that keep their checkpoint elsewhere: those of plugins, and of
/// a program.
///
/// Their checkpoint is a token. A token alone does not show whether the transactions up to it are still
/// the same, because a restored store uses their numbers again. So the furthest position that such a
/// context can have is saved here with its fingerprint, before the context receives the changes.
struct GivenStore: Sendable {
    let connection: StateConnection

    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    func save(_ context: String, of consumer: String, through position: Int64, _ fingerprint: String?) throws {
        try connection.access { db in
            try db.cachedStatement(
                sql: """
                    INSERT INTO given (consumer, context, position, fingerprint) VALUES (?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET position = excluded.position, fingerprint = excluded.fingerprint
                    """
            ).execute(arguments: [consumer, context, position, fingerprint])
        }
    }

    /// Notes that a context was rebuilt from the present store.
    func forget(_ context: String, of consumer: String) throws {
        try connection.access { db in
            try db.execute(
                sql: "DELETE FROM given WHERE consumer = ? AND context = ?", arguments: [consumer, context])
        }
    }

    /// Whether a context may have merged transactions that the store no longer has.
    func isReplaced(_ context: String, of consumer: String, in source: some HistorySource) throws -> Bool {
        let row = try connection.access { db in
            try Row.fetchOne(
                db, sql: "SELECT position, fingerprint FROM given WHERE consumer = ? AND context = ?",
                arguments: [consumer, context])
        }
        guard let row else { return false }
        let position = try row.integer("position", in: HistoryPosition.range)
        if try position > source.bounds().end { return true }
        return try source.isReplaced(try row.optionalText("fingerprint"), at: position)
    }
}
