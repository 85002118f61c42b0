import GRDB

/// The state's record of consumers that were moved back.
final class ReplayStore: Sendable {
    private let connection: StateConnection
    /// A cache of the table, because feeds query it often. Nil until it is read.
    private let known = Locked<[BinaryText: Replay]?>(nil)

    init(_ connection: StateConnection) { self.connection = connection }

    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    private func all() throws -> [BinaryText: Replay] {
        if let known = known.withLock({ $0 }) { return known }
        return try connection.access { db in
            let rows = try Row.fetchAll(
                try db.cachedStatement(sql: "SELECT consumer, number, through, batch_end FROM replay"))
            let read = Dictionary(
                uniqueKeysWithValues: try rows.map { row in
                    (
                        BinaryText(try row.text("consumer")),
                        Replay(
                            number: try row.integer("number", in: HistoryPosition.range),
                            through: try row.integer("through", in: HistoryPosition.range),
                            batchEnd: try row.integer("batch_end", in: HistoryPosition.range))
                    )
                })
            known.withLock { $0 = read }
            return read
        }
    }

    /// The last replay of a consumer, which may be over; nil if it was never moved back.
    func last(of consumer: String) throws -> Replay? { try all()[BinaryText(consumer)] }

    /// The furthest position of each consumer before it was moved back.
    func reached() throws -> [BinaryText: Int64] { try all().mapValues(\.through) }

    /// See `StateDatabase.move`.
    func save(_ replay: Replay, of consumer: String, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO replay VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT DO UPDATE SET number = ?2, through = ?3, batch_end = ?4
                """,
            arguments: [consumer, replay.number, replay.through, replay.batchEnd])
    }

    /// Ends the replays, because the store is not the one in which the consumer had been further. The
    /// count stays.
    func end(of consumer: String, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE replay SET through = 0, batch_end = 0 WHERE consumer = ?", arguments: [consumer])
    }

    /// Clears the cache when the table changes. It is called during the change: queries then wait for the
    /// database.
    func forget() { known.withLock { $0 = nil } }
}
