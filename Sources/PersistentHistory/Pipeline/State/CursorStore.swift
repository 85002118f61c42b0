import GRDB

/// The checkpoints of a store's consumers: saved at once, or later together with others.
final class CursorStore: Sendable {
    private let connection: StateConnection
    /// Checkpoints that have moved and are not saved yet.
    private let unsaved = Locked<[BinaryText: Checkpoint]>([:])
    /// Consumers that move together.
    let idle: IdleConsumers
    /// The position of the idle consumers at the last `flush`.
    private let idleSaved = Locked<Int64>(0)
    /// Notified when something unsaved appears.
    let hasUnsaved = WakeUpSignal()

    init(_ connection: StateConnection, idle: IdleConsumers) {
        self.connection = connection
        self.idle = idle
    }

    // MARK: Reading

    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    func checkpoint(of consumer: String) throws -> Checkpoint? {
        try connection.access { db in
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql:
                        "SELECT consumer, position, fingerprint, moved_at, served FROM cursor WHERE consumer = ?"
                ), arguments: [consumer])
            let saved = try unsaved.withLock { $0[consumer] } ?? row.map { try Checkpoint($0) }
            guard let idle = idle.checkpoint(of: consumer) else { return saved }
            guard let saved else { return idle }
            return idle.position > saved.position ? idle : saved
        }
    }

    /// All checkpoints by consumer, including unsaved ones.
    func all() throws -> [BinaryText: Checkpoint] {
        try connection.access { db in
            try saved(db).merging(unsaved.withLock { $0 }) { $1 }
                .merging(idle.checkpoints) { $1.position > $0.position ? $1 : $0 }
        }
    }

    /// Saves unsaved checkpoints, and returns all of them by consumer, as they would be after a crash. No
    /// history after them may be deleted.
    func saved() throws -> [BinaryText: Checkpoint] {
        try flush()
        return try connection.access(saved)
    }

    private func saved(_ db: Database) throws -> [BinaryText: Checkpoint] {
        let rows = try Row.fetchAll(
            try db.cachedStatement(
                sql: "SELECT consumer, position, fingerprint, moved_at, served FROM cursor"))
        return Dictionary(
            uniqueKeysWithValues: try rows.map { (BinaryText(try $0.text("consumer")), try Checkpoint($0)) })
    }

    // MARK: Saving

    func save(_ checkpoint: Checkpoint, of consumer: String) throws {
        // Under the lock of the database: see `flush`.
        try connection.access { db in
            unsaved.withLock { unsaved in if !unsaved.isEmpty { unsaved[consumer] = nil } }
            try save(checkpoint, of: consumer, db)
        }
    }

    /// Moves a consumer past history that needs no work, and saves that later together with others. After
    /// a crash, finding out again that there is no work takes less than a write for each commit.
    func saveLater(_ checkpoint: Checkpoint, of consumer: String) {
        let checkpoint = Checkpoint(
            position: checkpoint.position, fingerprint: checkpoint.fingerprint, movedAt: checkpoint.movedAt,
            movedAtServed: connection.served)
        let isFirst = unsaved.withLock { unsaved in
            defer { unsaved[consumer] = checkpoint }
            return unsaved.isEmpty
        }
        if isFirst { hasUnsaved.notify() }
    }

    /// Saves unsaved checkpoints. If there are none, a closed state stays closed.
    func flush() throws {
        let isIdle = idle.position(ifAfter: idleSaved.withLock { $0 }) != nil
        guard isIdle || unsaved.withLock({ !$0.isEmpty }) else { return }
        // They are taken under the lock of the database, so a checkpoint that is saved immediately comes
        // after them.
        try connection.access { db in
            var checkpoints = unsaved.withLock { unsaved in
                defer { unsaved = [:] }
                return unsaved
            }
            let taken = checkpoints
            // Includes those that were woken up and have not continued yet.
            let position = idle.position(ifAfter: idleSaved.withLock { $0 })
            if position != nil { checkpoints.merge(idle.checkpoints) { $1 } }
            guard !checkpoints.isEmpty else { return }
            do {
                try db.inTransaction {
                    for (consumer, checkpoint) in checkpoints { try save(checkpoint, of: consumer.text, db) }
                    return .commit
                }
            } catch {
                // Saved later. Those that have moved meanwhile are further ahead.
                unsaved.withLock { $0.merge(taken) { newer, _ in newer } }
                throw error
            }
            if let position { idleSaved.withLock { $0 = position } }
        }
    }

    private func save(_ checkpoint: Checkpoint, of consumer: String, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO cursor (consumer, position, fingerprint, moved_at, served) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET position = excluded.position, fingerprint = excluded.fingerprint,
                moved_at = excluded.moved_at, served = excluded.served
                """
        ).write(
            db,
            [
                .text(consumer), .integer(checkpoint.position),
                checkpoint.fingerprint.map { .text($0) } ?? .null, .integer(checkpoint.movedAt.milliseconds),
                .integer(connection.served.milliseconds),
            ])
    }

    /// Saves that a consumer had caught up until now, and cannot continue.
    func saveCaughtUpUntilNow(_ consumer: String) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE cursor SET served = ? WHERE consumer = ?",
                arguments: [connection.served.milliseconds, consumer])
        }
    }

    // MARK: The batch in progress

    /// The end of a consumer's last batch, which it may not have finished.
    func batchEnd(of consumer: String) throws -> Int64 {
        try connection.access { db in
            try Int64.fetchOne(
                db, sql: "SELECT batch_end FROM cursor WHERE consumer = ?", arguments: [consumer])
                ?? 0
        }
    }

    func saveBatchEnd(_ position: Int64, of consumer: String) throws {
        try connection.access { db in
            try db.cachedStatement(sql: "UPDATE cursor SET batch_end = ? WHERE consumer = ?")
                .execute(arguments: [position, consumer])
        }
    }

    // MARK: Lost history

    /// The lost history that a consumer's hooks have yet to be notified of.
    func expiry(of consumer: String, store: StoreID) throws -> Expiry? {
        try connection.access { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT expiry, lost, begins_after FROM cursor WHERE consumer = ?",
                arguments: [consumer])
            return try row.flatMap { row in
                let after = try row.optionalInteger("begins_after", in: HistoryPosition.range) ?? 0
                return try Expiry(row, after: after, store)
            }
        }
    }

    /// Notes that all of a consumer's hooks have been notified.
    func removeExpiry(of consumer: String) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE cursor SET expiry = NULL, lost = NULL, begins_after = NULL WHERE consumer = ?",
                arguments: [consumer])
        }
    }

    /// See `StateDatabase.startOver`.
    func startOver(_ consumer: String, _ expiry: Expiry?, at checkpoint: Checkpoint, _ db: Database) throws {
        unsaved.withLock { $0[consumer] = nil }
        try save(checkpoint, of: consumer, db)
        try db.execute(sql: "UPDATE cursor SET batch_end = 0 WHERE consumer = ?", arguments: [consumer])
        guard let expiry else { return }
        // An earlier loss that its hooks were not notified of is merged into this one.
        try db.execute(
            sql: """
                UPDATE cursor SET lost = CASE WHEN expiry IS NULL THEN ? ELSE lost END, expiry = ?, begins_after = ?
                WHERE consumer = ?
                """,
            arguments: [expiry.lost?.number, expiry.reason.rawValue, expiry.after.number, consumer])
    }
}

extension Checkpoint {
    /// - Parameter row: A row with the columns of the table `cursor`. A fingerprint may be missing.
    init(_ row: Row) throws {
        self.init(
            position: try row.integer("position", in: HistoryPosition.range),
            fingerprint: row.hasColumn("fingerprint") ? try row.optionalText("fingerprint") : nil,
            movedAt: HistoryTimestamp(milliseconds: try row.integer("moved_at")),
            movedAtServed: .milliseconds(try row.integer("served", in: StateConnection.servedRange)))
    }
}

extension Expiry {
    /// - Parameter row: A row with the columns `expiry` and `lost`.
    init?(_ row: Row, after position: Int64, _ store: StoreID) throws {
        guard let reason = try row.optionalText("expiry") else { return nil }
        self.init(
            reason: Reason(rawValue: reason) ?? .expired,
            lost: try row.optionalInteger("lost", in: HistoryPosition.range).map {
                HistoryToken(store: store, number: $0)
            },
            after: HistoryToken(store: store, number: position))
    }
}
