import GRDB

/// What the daemon knows about one store that is not in the store itself: one SQLite database
/// in the state folder, named after the store's id, so that a store that is moved keeps its state.
package final class StateDatabase: Sendable {
    private let connection: StateConnection
    let cursors: CursorStore
    let feeds: FeedStore
    let replicas: ReplicaStore
    let deadLetters: DeadLetterStore

    var path: String { connection.path }
    /// Whether the file was created now.
    var isNew: Bool { connection.isNew }
    var clock: HistoryClock { connection.clock }
    /// How long the store has been served in all, by a monotonic clock.
    var served: Duration { connection.served }
    /// Is notified when the file is found to be damaged, whichever part uses it.
    var damaged: WakeUpSignal { connection.damaged }
    var damage: HistoryError? { connection.damage }
    /// Is notified when it is time for `moveLogIntoDatabase`.
    var logHasGrown: WakeUpSignal { connection.logHasGrown }

    /// The path of a store's state.
    static func path(folder: String, store: StoreID) -> String { "\(folder)/\(store).sqlite" }

    /// Opens the state of a store, and creates it where there is none.
    ///
    /// - Parameter resting: Consumers whose cursors are saved with the others.
    /// - Throws: `HistoryError` with `.stateUnusable`, as everything here.
    init(
        folder: String, store: StoreID, clock: HistoryClock = .system, resting: RestingConsumers? = nil
    ) throws {
        connection = try StateConnection(Self.path(folder: folder, store: store), clock: clock)
        cursors = CursorStore(
            connection,
            resting: resting ?? RestingConsumers([], at: Checkpoint(position: 0, movedAt: clock.wall())))
        feeds = FeedStore(connection: connection, store: store)
        replicas = ReplicaStore(connection: connection)
        deadLetters = DeadLetterStore(connection: connection)
    }

    /// - Throws: `HistoryError` with `.stateUnusable` if the file was removed or replaced: after a restart, consumers
    ///   would start over.
    func checkIsThere() throws { try connection.checkIsThere() }

    /// Ends the connection. It may be used on: the next access opens it again.
    func close() throws { try connection.close() }

    /// Makes what was saved until now survive a power failure: with `synchronous=NORMAL`, SQLite does not sync the
    /// write-ahead log at a commit (https://www.sqlite.org/pragma.html#pragma_synchronous).
    func syncToDisk() throws { try connection.syncToDisk() }

    /// Moves what is in the write-ahead log into the database, again and again. It waits for the disk: nothing for
    /// the loop.
    func keepLogShort() async {
        for await _ in connection.logHasGrown {
            do { try connection.moveLogIntoDatabase() } catch {
                // Nothing is lost: the log keeps it, and the next turn tries again. What hinders saving itself is
                // thrown where something is saved.
            }
        }
    }

    // MARK: Consumers

    /// Moves a consumer to another position, with its replicas to be filled again.
    ///
    /// - Parameter expiry: The history that it loses, kept until its hooks have been notified; nil if none is lost.
    func startOver(_ consumer: String, _ expiry: Expiry?, at position: Int64, fingerprint: String? = nil) throws
    {
        try connection.transaction { db in
            let checkpoint = Checkpoint(position: position, fingerprint: fingerprint, movedAt: clock.wall())
            try cursors.startOver(consumer, expiry, at: checkpoint, db)
            try replicas.refill(consumer, db)
            if let expiry, expiry.reason == .restored { try feeds.expireAll(of: consumer, expiry, db) }
        }
    }

    /// Forgets consumers that are no longer configured, so that they do not hold back a cleanup.
    ///
    /// - Returns: Those that were forgotten.
    func keepOnly(_ consumers: Set<String>) throws -> [String] {
        let kept = Set<BinaryText>(names: consumers)
        let gone = try cursors.all().keys.filter { !kept.contains($0) }.sorted().map(\.text)
        guard !gone.isEmpty else { return [] }
        try connection.transaction { db in
            for consumer in gone {
                for table in ["cursor", "feed", "unmerged", "replica"] {
                    try db.execute(sql: "DELETE FROM \(table) WHERE consumer = ?", arguments: [consumer])
                }
            }
        }
        return gone
    }

    // MARK: Served time

    /// Saves the served time for the next opening; saving a cursor does so, too.
    ///
    /// - Parameter newest: The store's newest position: a consumer or a feed that is there is caught up.
    func saveServed(newest: Int64?) throws {
        try cursors.flush()
        try connection.transaction { db in
            let served = served.milliseconds
            try db.execute(sql: "UPDATE service SET served = max(served, ?)", arguments: [served])
            guard let newest else { return }
            for table in ["cursor", "feed"] {
                try db.execute(
                    sql: "UPDATE \(table) SET served = ? WHERE position >= ?", arguments: [served, newest])
            }
        }
    }

    // MARK: Cleaning

    /// When history was last cleaned, and how many notifications brought something since.
    func cleaning() throws -> (at: HistoryTimestamp?, notifications: Int) {
        try connection.access { db in
            let row = try Row.fetchOne(db, sql: "SELECT cleaned_at, passes FROM service")
            let at = (row?["cleaned_at"] as Int64?).map { HistoryTimestamp(milliseconds: $0) }
            return (at, row?["passes"] ?? 0)
        }
    }

    /// - Parameter notifications: Those that made it due: others may have been counted since.
    func saveCleaning(at: HistoryTimestamp, after notifications: Int) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE service SET cleaned_at = ?, passes = max(0, passes - ?)",
                arguments: [at.milliseconds, notifications])
        }
    }

    /// Counts a notification that brought something.
    func countNotification() throws {
        try connection.access { db in
            try db.cachedStatement(sql: "UPDATE service SET passes = passes + 1").execute()
        }
    }
}
