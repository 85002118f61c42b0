import GRDB

/// The place in the history that a replica showed when it was filled.
public struct ReplicaFilling: Sendable, Equatable {
    public let number: Int64
    /// See `Cursor.mark`.
    public let mark: String?
}

/// Consumers and replicas that begin anew.
extension StateDatabase {
    /// Lets a consumer go on at another place, and keeps until it was told that it has lost history.
    /// Its replicas are to be filled anew.
    ///
    /// - Parameters:
    ///   - expiry: Nil where nothing is lost.
    ///   - mark: See `Cursor.mark`.
    public func beginAnew(_ consumer: String, _ expiry: Expiry?, at number: Int64, mark: String? = nil) throws {
        try access { db in
            unsaved.withLock { $0[consumer] = nil }
            try db.inTransaction {
                try save(Cursor(number: number, movedAt: clock.wall(), mark: mark), of: consumer, db)
                try db.execute(sql: "DELETE FROM fetched WHERE consumer = ?", arguments: [consumer])
                try db.execute(sql: "UPDATE replica SET refill = 1 WHERE consumer = ?", arguments: [consumer])
                guard let expiry else { return .commit }
                if expiry.reason == .restored {
                    try expireFeeds(db, .restored, at: number, where: "consumer = ?", [consumer])
                    try db.execute(sql: "DELETE FROM unmerged WHERE consumer = ?", arguments: [consumer])
                }
                // Who has not been told yet of an earlier loss is told of all of it at once.
                try db.execute(
                    sql: """
                        INSERT INTO expiry VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
                        SET reason = excluded.reason, begins_after = excluded.begins_after
                        """,
                    arguments: [
                        consumer, expiry.reason.rawValue, expiry.lost?.number, expiry.after.number,
                    ])
                return .commit
            }
        }
    }

    /// What a consumer's hooks have yet to be told.
    public func expiry(of consumer: String, store: StoreID) throws -> Expiry? {
        try access { db in
            try Row.fetchOne(
                db, sql: "SELECT reason, lost, begins_after FROM expiry WHERE consumer = ?",
                arguments: [consumer]
            )
            .map { row in
                Expiry(
                    reason: Expiry.Reason(rawValue: row["reason"]) ?? .expired,
                    lost: (row["lost"] as Int64?).map { HistoryToken(store: store, number: $0) },
                    after: HistoryToken(store: store, number: row["begins_after"]))
            }
        }
    }

    /// All of a consumer's hooks have been told.
    public func removeExpiry(of consumer: String) throws {
        try access { db in
            try db.execute(sql: "DELETE FROM expiry WHERE consumer = ?", arguments: [consumer])
        }
    }

    /// Whether a consumer's replica has been at a path before, and whether it is to be filled anew.
    public func replica(_ context: String, of consumer: String, at path: String) throws
        -> (isKnown: Bool, isToBeFilled: Bool)
    {
        try access { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT refill FROM replica WHERE consumer = ? AND context = ? AND path = ?",
                arguments: [consumer, context, path])
            return (row != nil, row?["refill"] ?? false)
        }
    }

    /// A consumer's replica is to be filled anew.
    public func refillReplica(_ context: String, of consumer: String) throws {
        try access { db in
            try db.execute(
                sql: "UPDATE replica SET refill = 1 WHERE consumer = ? AND context = ?",
                arguments: [consumer, context])
        }
    }

    /// A consumer's replica is at a path, and is filled.
    ///
    /// - Parameter filling: Where it was filled, where that was now.
    public func noteReplica(
        _ context: String, of consumer: String, at path: String, filling: ReplicaFilling? = nil
    ) throws {
        try access { db in
            try db.inTransaction {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO replica VALUES (?, ?, ?, 0)",
                    arguments: [consumer, context, path])
                if let filling {
                    try db.execute(
                        sql: "INSERT OR REPLACE INTO filled VALUES (?, ?, ?, ?)",
                        arguments: [consumer, context, filling.number, filling.mark])
                }
                return .commit
            }
        }
    }

    /// Where a consumer's replica was filled last, which may be far ahead of its consumer.
    public func filling(_ context: String, of consumer: String) throws -> ReplicaFilling? {
        try access { db in
            try Row.fetchOne(
                db, sql: "SELECT number, mark FROM filled WHERE consumer = ? AND context = ?",
                arguments: [consumer, context]
            )
            .map { ReplicaFilling(number: $0["number"], mark: $0["mark"]) }
        }
    }
}
