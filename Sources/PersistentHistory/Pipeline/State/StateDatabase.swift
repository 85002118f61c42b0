import GRDB

/// What the daemon stores about one store outside that store: one SQLite database in the state folder. It
/// is named after the store's id, so that a moved store keeps its state.
package final class StateDatabase: Sendable {
    let connection: StateConnection
    let cursors: CursorStore
    let feeds: FeedStore
    let replicas: ReplicaStore
    let given: GivenStore
    let sightings: SightingStore
    let replays: ReplayStore
    /// Prevents moves and cleanups from interfering with each other.
    let cleaningGate = CleaningGate()
    let deadLetters: DeadLetterStore

    var path: String { connection.path }
    var clock: HistoryClock { connection.clock }
    /// How long the store has been served in total, by a monotonic clock.
    var served: Duration { connection.served }

    /// The path of a store's state.
    static func path(folder: String, store: StoreID) -> String { "\(folder)/\(store).sqlite" }

    /// Opens the state of a store, or creates it if it does not exist.
    ///
    /// - Parameter idle: Consumers whose cursors are saved together.
    /// - Throws: `HistoryError` with `.stateUnusable`, like everything here.
    init(
        folder: String, store: StoreID, clock: HistoryClock = .system, idle: IdleConsumers? = nil
    ) throws {
        connection = try StateConnection(Self.path(folder: folder, store: store), clock: clock)
        cursors = CursorStore(
            connection,
            idle: idle ?? IdleConsumers([], at: Checkpoint(position: 0, movedAt: clock.wall())))
        feeds = FeedStore(connection: connection, store: store)
        replicas = ReplicaStore(connection: connection)
        given = GivenStore(connection: connection)
        sightings = SightingStore(connection: connection)
        replays = ReplayStore(connection)
        deadLetters = DeadLetterStore(connection: connection)
    }

    /// Closes the connection. The next access opens it again.
    func close() throws { try connection.close() }

    // MARK: Consumers

    /// Moves a consumer to another position, and marks its replicas to be filled again.
    ///
    /// - Parameter expiry: The history that it loses, stored until its hooks have been notified; nil if
    ///   none is lost.
    func startOver(_ consumer: String, _ expiry: Expiry?, at position: Int64, fingerprint: String? = nil) throws
    {
        try connection.transaction { db in
            let checkpoint = Checkpoint(position: position, fingerprint: fingerprint, movedAt: clock.wall())
            try cursors.startOver(consumer, expiry, at: checkpoint, db)
            try replicas.refill(consumer, db)
            guard let expiry, expiry.reason == .restored else { return }
            try feeds.expireAll(of: consumer, expiry, db)
            try replays.end(of: consumer, db)
            replays.forget()
        }
    }

    /// Moves a consumer to another position. Its contexts keep theirs.
    ///
    /// - Parameter replay: What is repeated afterwards, or was repeated before, if anything.
    func move(_ consumer: String, to checkpoint: Checkpoint, _ replay: Replay?) throws {
        try connection.transaction { db in
            try cursors.startOver(consumer, nil, at: checkpoint, db)
            if let replay { try replays.save(replay, of: consumer, db) }
            replays.forget()
        }
    }

    /// The furthest position that a consumer has reached and its feeds may reach. It is ahead of the
    /// checkpoint of a consumer that was moved back.
    func reached(_ consumer: String) throws -> Int64 {
        max(try cursors.checkpoint(of: consumer)?.position ?? 0, try replays.last(of: consumer)?.through ?? 0)
    }

    /// Removes consumers that are no longer configured, so that they do not hold back a cleanup.
    ///
    /// - Returns: The removed consumers.
    func keepOnly(_ consumers: Set<String>) throws -> [String] {
        let kept = Set<BinaryText>(names: consumers)
        let gone = try cursors.all().keys.filter { !kept.contains($0) }.sorted().map(\.text)
        guard !gone.isEmpty else { return [] }
        try connection.transaction { db in
            for consumer in gone {
                for table in ["cursor", "feed", "unmerged", "replica", "given", "replay"] {
                    try db.execute(sql: "DELETE FROM \(table) WHERE consumer = ?", arguments: [consumer])
                }
            }
        }
        replays.forget()
        return gone
    }

    // MARK: Served time

    /// Saves the served time for the next opening. Saving a cursor does so, too.
    ///
    /// - Parameter newest: The store's newest position. A consumer or feed at this position has caught
    ///   up.
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

    /// When history was last cleaned, and how many notifications brought new history since.
    func cleaning() throws -> (at: HistoryTimestamp?, notifications: Int) {
        try connection.access { db in
            let row = try Row.fetchOne(db, sql: "SELECT cleaned_at, passes FROM service")
            let at = (row?["cleaned_at"] as Int64?).map { HistoryTimestamp(milliseconds: $0) }
            return (at, row?["passes"] ?? 0)
        }
    }

    /// - Parameter notifications: Those that made it due. More may have been counted since.
    func saveCleaning(at: HistoryTimestamp, after notifications: Int) throws {
        try connection.access { db in
            try db.execute(
                sql: "UPDATE service SET cleaned_at = ?, passes = max(0, passes - ?)",
                arguments: [at.milliseconds, notifications])
        }
    }

    /// Counts a notification that brought new history.
    func countNotification() throws {
        try connection.access { db in
            try db.cachedStatement(sql: "UPDATE service SET passes = passes + 1").execute()
        }
    }
}

/// The tables of a state database. `PRAGMA user_version` is the version of the tables.
enum StateSchema {
    static let version = 3

    /// - `cursor`: a consumer's checkpoint; the end of the batch that it has begun (`batch_end`); the
    ///   history that it has lost, until its hooks have been notified (`expiry`, `lost`, `begins_after`).
    /// - `feed`: a feed's checkpoint, and the history that it has lost, until that is acknowledged.
    /// - `unmerged`: what a consumer's merge hooks have withheld from its feeds.
    /// - `replica`: where a replica is, the checkpoint at which it was last filled, whether it must be
    ///   filled again.
    /// - `given`: how far changes were given to a context that keeps its checkpoint elsewhere
    ///   (`GivenStore`).
    /// - `sighting`: the position of the history at a time (`SightingStore`).
    /// - `replay`: how often a consumer was moved back, its furthest position, and the end of the batch
    ///   that it had begun there (`ReplayStore`).
    /// - `service`: served time, when history was last cleaned, and the notifications since that brought
    ///   new history (`passes`).
    private static let tables = """
        CREATE TABLE cursor (
            consumer TEXT PRIMARY KEY, position INTEGER NOT NULL, fingerprint TEXT, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, batch_end INTEGER NOT NULL DEFAULT 0, expiry TEXT, lost INTEGER,
            begins_after INTEGER) WITHOUT ROWID;
        CREATE TABLE feed (
            consumer TEXT, context TEXT, position INTEGER NOT NULL, moved_at INTEGER NOT NULL,
            served INTEGER NOT NULL, expiry TEXT, lost INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE unmerged (
            consumer TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (consumer, first)) WITHOUT ROWID;
        CREATE TABLE replica (
            consumer TEXT, context TEXT, path TEXT NOT NULL, refill INTEGER NOT NULL, position INTEGER,
            fingerprint TEXT, moved_at INTEGER, PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE dead_letter (
            id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL, hook TEXT NOT NULL,
            delivery TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL,
            call TEXT NOT NULL, kept_at INTEGER NOT NULL, method TEXT);
        CREATE INDEX dead_letter_delivery ON dead_letter (delivery);
        CREATE INDEX dead_letter_consumer ON dead_letter (consumer);
        CREATE TABLE service (
            id INTEGER PRIMARY KEY CHECK (id = 1), served INTEGER NOT NULL, cleaned_at INTEGER,
            passes INTEGER NOT NULL);
        INSERT INTO service VALUES (1, 0, NULL, 0);
        \(given)
        \(sinceSecond)
        """
    private static let given = """
        CREATE TABLE given (
            consumer TEXT, context TEXT, position INTEGER NOT NULL, fingerprint TEXT,
            PRIMARY KEY (consumer, context)) WITHOUT ROWID;
        CREATE TABLE sighting (position INTEGER PRIMARY KEY, fingerprint TEXT, at INTEGER NOT NULL);
        """

    /// Changes in version 2.
    private static let sinceFirst = "ALTER TABLE dead_letter ADD COLUMN method TEXT; \(given)"
    /// Changes in version 3.
    private static let sinceSecond = """
        CREATE TABLE replay (
            consumer TEXT PRIMARY KEY, number INTEGER NOT NULL, through INTEGER NOT NULL,
            batch_end INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// Creates the tables in a new file, and adds what an older file lacks, in one transaction.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable` if a newer program wrote it; `DatabaseError`.
    static func prepare(_ db: Database, path: String) throws {
        if try version(of: db) == version { return }
        try db.inTransaction(.immediate) {
            switch try version(of: db) {
            case version: break
            case 0: try db.execute(sql: tables)
            case 1: try db.execute(sql: sinceFirst + sinceSecond)
            case 2: try db.execute(sql: sinceSecond)
            case let newer:
                throw HistoryError(
                    .stateUnusable,
                    "The state database \"\(path)\" has the schema version \(newer), which a newer program wrote; this program knows versions up to \(version).",
                    hint: "Use the newer program, or move the file away; the store's consumers then start over."
                )
            }
            try db.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    private static func version(of db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    }
}
