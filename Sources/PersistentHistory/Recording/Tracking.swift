package import GRDB
import GRDBSQLite
internal import Glibc

/// Turns recording on and off for the tables of a store.
public enum Tracking {
    /// What tracking did; empty if nothing had to be done.
    public struct Outcome: Sendable, Equatable, Codable {
        /// Entities tracked for the first time.
        public var added: [String] = []
        /// Entities whose triggers were updated.
        public var updated: [String] = []
        /// Tracked entities whose table is gone.
        public var dropped: [String] = []

        /// The reasons why recording may miss changes, by the entity's name. Replicas
        /// then copy all rows of the entity after each change. These are not changes of the tracking.
        public var doubts: [BinaryText: [String]] = [:]

        /// What was requested and is left out, with the reason: a table that does not exist or cannot be
        /// tracked, or a missing column to preserve. These are not changes of the tracking.
        public var unfit: [BinaryText: String] = [:]
        /// Entities whose changes may have gone unrecorded until now. The history names them, so that every
        /// consumer is notified.
        public var recreated: [String] = []
        /// Whether tables of the history were missing: a new history began, with a new store id.
        public var beganAgain = false

        /// Whether nothing had to be done.
        public var isEmpty: Bool {
            added.isEmpty && updated.isEmpty && dropped.isEmpty && recreated.isEmpty && !beganAgain
        }
    }

    /// Tracks entities of a store. It is idempotent, and changes only what recording needs.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - entities: Columns to preserve, by entity name. A nil list keeps the columns that are preserved now.
    ///   - all: Whether to track every ordinary table; `entities` then says which columns to preserve.
    ///   - timeout: How long to wait for a lock that another process holds.
    /// - Throws: `HistoryError`.
    @discardableResult
    public static func track(
        _ path: String, _ entities: [BinaryText: [String]?], all: Bool = false, timeout: Duration = .seconds(5)
    ) throws -> Outcome {
        try StoreRecorder.requireRecordable(path)
        return try bringUpToDate(path, entities, all: all, timeout: timeout).outcome
    }

    /// As `track`, but it may leave out what does not exist. It also returns the schema version that it
    /// read or made in its transaction: later changes by other processes are yet to be seen.
    ///
    /// - Parameter expectsChange: Whether there is likely something to do. If so, one connection does
    ///   everything, because SQLite parses the whole schema for each. If not, no lock is taken, and no
    ///   file beside the store is created and removed, which would make an event for other observers.
    /// - Parameter progress: Receives the number of finished tables and of all, if there are many.
    static func bringUpToDate(
        _ path: String, _ entities: [BinaryText: [String]?], all: Bool = false, leavesOutUnfit: Bool = false,
        expectsChange: Bool = false, timeout: Duration,
        progress: (_ done: Int, _ all: Int) -> Void = { _, _ in }
    ) throws -> Updated {
        let update = Update(path: path) { db in
            try TrackingPlan(db, entities: entities, all: all, leavesOutUnfit: leavesOutUnfit)
        }
        if expectsChange {
            do {
                return try StoreConnection.withConnection(to: path, .write, timeout: timeout) { queue in
                    try update.carryOut(update.look(queue), queue, progress)
                }
            } catch let error as HistoryError where error.isOfRights {
                // If there is nothing to do, the store need not be writable.
            }
        }
        let seen = try StoreConnection.withConnection(to: path, .read, timeout: timeout, update.look)
        if let result = seen.result { return result }
        return try StoreConnection.withConnection(to: path, .write, timeout: timeout) { queue in
            try update.carryOut(seen, queue, progress)
        }
    }

    typealias Updated = (outcome: Outcome, schemaVersion: Int64)

    /// Carries out a plan, up to the tracking that it requires.
    private struct Update {
        let path: String
        let plan: (Database) throws -> TrackingPlan

        struct Seen {
            let file: FileID?
            let plan: TrackingPlan
            let schemaVersion: Int64

            /// Set if there is nothing to do.
            var result: Updated? {
                guard plan.isEmpty else { return nil }
                return (Outcome(doubts: plan.doubts, unfit: plan.unfit.mapValues { "\($0)" }), schemaVersion)
            }
        }

        func look(_ queue: DatabaseQueue) throws -> Seen {
            let file = FileID(of: path)
            return try queue.read { db in
                Seen(file: file, plan: try plan(db), schemaVersion: try db.currentSchemaVersion())
            }
        }

        func carryOut(
            _ seen: Seen, _ queue: DatabaseQueue, _ progress: (_ done: Int, _ all: Int) -> Void
        ) throws -> Updated {
            if let result = seen.result { return result }
            var outcome = Outcome()
            var portions = TrackingPortions()
            var rest: Seen? = seen
            var (done, version) = (0, seen.schemaVersion)
            while let seen = rest {
                let part = try portion(of: seen, queue) { portions.size(of: $0.steps.count) }
                outcome.add(part.outcome)
                (rest, version) = (part.rest, part.schemaVersion)
                guard let rest else { break }
                done += part.count
                progress(done, done + rest.plan.steps.count)
                // Not within the next portion, where others would wait for it.
                let reading = try ContinuousClock().measure { try queue.readSchema() }
                let pause = portions.done(part.count, held: part.held, reading: reading)
                usleep(UInt32(clamping: pause.microseconds))
            }
            return (outcome, version)
        }

        /// Does one transaction's work, and returns what is left.
        private func portion(
            of seen: Seen, _ queue: DatabaseQueue, size: (TrackingPlan) -> Int
        ) throws -> (outcome: Outcome, count: Int, rest: Seen?, schemaVersion: Int64, held: Duration) {
            try queue.inSoloTransaction { db in
                let began = ContinuousClock.now
                // With thousands of tables, making a plan takes time that writers would wait for.
                let isUnchanged =
                    try FileID(of: path) == seen.file && db.currentSchemaVersion() == seen.schemaVersion
                let all = try isUnchanged ? seen.plan : plan(db)
                let (first, rest) = all.split(after: size(all))
                let outcome = try first.carryOut(db)
                let version = try db.currentSchemaVersion()
                return (
                    outcome, first.steps.count,
                    rest.map { Seen(file: seen.file, plan: $0, schemaVersion: version) }, version, .now - began
                )
            }
        }
    }

    /// Tracks tables of what was a mirror until now. No change is missed, because it is one transaction.
    ///
    /// - Parameter unmake: Makes an ordinary file of the mirror, and returns the columns to preserve by table.
    package static func takeOver(
        _ path: String, unmake: (Database) throws -> [BinaryText: [String]?]
    ) throws {
        try HistoryError.translating(path) {
            try StoreConnection.withConnection(to: path, .write, timeout: .seconds(5)) { queue in
                try queue.inSoloTransaction { db in
                    let entities = try unmake(db)
                    _ = try TrackingPlan(db, entities: entities, all: false).carryOut(db, isComplete: true)
                }
            }
        }
    }

    /// Checks that a store is a mirror.
    ///
    /// - Returns: The schema version.
    static func checkMirror(_ path: String, timeout: Duration) throws -> Int64 {
        try StoreConnection.withConnection(to: path, .read, timeout: timeout) { queue in
            try queue.read { db in
                guard try StoreRecorder.isMirror(db) else {
                    throw HistoryError(
                        .notTracked, "The store \"\(path)\" is no mirror.",
                        hint: "historyd-nats makes mirrors; without \"mirror\" the store is recorded here.")
                }
                return try db.currentSchemaVersion()
            }
        }
    }

    /// Updates the triggers to the schema: new, renamed and dropped columns, tables that were renamed, dropped or
    /// created again.
    ///
    /// - Throws: `HistoryError`.
    @discardableResult
    public static func refresh(_ path: String, timeout: Duration = .seconds(5)) throws -> Outcome {
        try track(path, [:], timeout: timeout)
    }

    /// The ordinary tables of a store, which can be entities, with their columns.
    ///
    /// - Throws: `HistoryError`.
    public static func tables(of path: String) throws -> [BinaryText: [String]] {
        try StoreRecorder.requireRecordable(path)
        return try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db in
                Dictionary(
                    uniqueKeysWithValues: try StoreSchema(db).ordinaryTables.map {
                        (BinaryText($0.name), $0.columns.map(\.name))
                    })
            }
        }
    }
}

extension DatabaseQueue {
    /// Reads the schema if another connection has changed it, or this one by `SchemaRows`.
    fileprivate func readSchema() throws {
        try read { db in _ = try Int.fetchOne(db, sql: "SELECT 1 FROM sqlite_schema LIMIT 1") }
    }
}
