import GRDB

/// What the state knows of consumers that were moved back.
final class ReplayStore: Sendable {
    private let connection: StateConnection
    /// As in the table: feeds ask again and again. Nil until it was read.
    private let known = Locked<[BinaryText: Replay]?>(nil)

    init(_ connection: StateConnection) { self.connection = connection }

    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
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

    /// Where each consumer had been when it was moved back.
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

    /// The store is another one than that in which the consumer had been further. Its replays stay counted.
    func end(of consumer: String, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE replay SET through = 0, batch_end = 0 WHERE consumer = ?", arguments: [consumer])
    }

    /// What is in the table is another thing now. Called while it is changed: who asks meanwhile waits for the database.
    func forget() { known.withLock { $0 = nil } }
}
