import GRDB

/// The state's record of replicas: where each is, and the position at which it was filled. A replica's
/// later positions are in its own file, so that rows and position are written in one transaction.
struct ReplicaStore: Sendable {
    let connection: StateConnection

    struct Known: Equatable {
        /// Whether a replica of the context has been at this path before.
        var isHere = false
        /// Whether it must be filled again.
        var needsFilling = false
        /// The position at which it was last filled, which may be far ahead of its consumer.
        var filling: Checkpoint?

        /// Whether the store was restored since then.
        func isReplaced(in source: some HistorySource) throws -> Bool {
            try filling.map { try source.isReplaced($0.fingerprint, at: $0.position) } ?? false
        }
    }

    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    func known(_ context: String, of consumer: String, at path: String) throws -> Known {
        try connection.access { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT * FROM replica WHERE consumer = ? AND context = ?",
                arguments: [consumer, context])
            guard let row else { return Known() }
            let isHere = try row.text("path").hasSameBytes(as: path)
            let filling = try row.optionalInteger("position", in: HistoryPosition.range).map {
                Checkpoint(
                    position: $0, fingerprint: try row.optionalText("fingerprint"),
                    movedAt: HistoryTimestamp(milliseconds: try row.optionalInteger("moved_at") ?? 0))
            }
            return Known(isHere: isHere, needsFilling: try row.flag("refill") && isHere, filling: filling)
        }
    }

    /// Notes that a replica is at a path and need not be filled.
    ///
    /// - Parameter filling: The position at which it was filled, if it was filled now.
    func save(_ context: String, of consumer: String, at path: String, filling: Checkpoint?) throws {
        try connection.transaction { db in
            try db.execute(
                sql: """
                    INSERT INTO replica (consumer, context, path, refill) VALUES (?, ?, ?, 0)
                    ON CONFLICT DO UPDATE SET path = excluded.path, refill = 0
                    """,
                arguments: [consumer, context, path])
            guard let filling else { return }
            try db.execute(
                sql: """
                    UPDATE replica SET position = ?, fingerprint = ?, moved_at = ?
                    WHERE consumer = ? AND context = ?
                    """,
                arguments: [
                    filling.position, filling.fingerprint, filling.movedAt.milliseconds, consumer, context,
                ])
        }
    }

    /// Notes that a replica must be filled again.
    func refill(_ context: String, of consumer: String) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE replica SET refill = 1 WHERE consumer = ? AND context = ?",
                arguments: [consumer, context])
        }
    }

    /// Notes that all replicas of a consumer must be filled again.
    func refill(_ consumer: String, _ db: Database) throws {
        try db.execute(sql: "UPDATE replica SET refill = 1 WHERE consumer = ?", arguments: [consumer])
    }
}
