import GRDB
internal import Glibc

/// Removes a store's triggers, so that a migration tool finds its tables as it made them, and restores
/// them.
///
/// Meanwhile the daemon and `track` leave the tracking alone (`MigrationLock`). Changes in that time are
/// not recorded, so when the triggers return, the history names the entities (`UnrecordedChanges`),
/// unless nothing was committed. The entities stay tracked all the time: if the migration's process is
/// killed, the next process that updates the tracking finds the triggers missing, and does the same.
package final class Migration {
    /// The role of the trigger that stays on each table. It does nothing, and moves along when the table
    /// is renamed.
    static let followingRole = "table"

    private let path: String
    private let lock: MigrationLock
    private let file: FileID?
    private let queue: DatabaseQueue
    /// SQLite's value while no other connection commits
    /// (https://www.sqlite.org/pragma.html#pragma_data_version).
    private let dataVersion: Int64
    private let replaced: ReplacedTables

    /// How long to wait for the lock: as long as a large transaction may take.
    private static let timeout: Duration = .seconds(60)

    /// Whether a migration of the store is in progress. Only for a store to which this process has no
    /// connection.
    package static func isUnderWay(_ path: String) -> Bool {
        WriterProbe.isMigrating(path, isUsedInProcess: false)
    }

    package static func underWay(_ path: String) -> HistoryError { MigrationLock.underWay(path) }

    /// Removes the triggers.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - entities: The entities whose triggers are in the way; nil for all.
    /// - Throws: `HistoryError`: with `.notTracked` or `.storeMissing` if there is nothing to remove,
    ///   with `.storeBusy` if another migration runs.
    package init(_ path: String, entities: [String]? = nil) throws {
        self.path = path
        lock = try MigrationLock(try StorePath.resolve(path))
        do {
            // Repairs the tracking first, so that earlier damage is not attributed to the migration.
            try Tracking.refresh(path, timeout: Self.timeout)
            file = FileID(of: path)
            queue = try StoreConnection.open(
                path, .write, timeout: Self.timeout, work: WorkLimit(endsWithTask: false))
        } catch {
            lock.end()
            throw error
        }
        do {
            (replaced, dataVersion) = try HistoryError.translating(path) { [queue] in
                let replaced = try queue.inSoloTransaction { db in try Self.takeOut(entities, db) }
                return (replaced, try queue.read { db in try Self.dataVersion(db) })
            }
        } catch {
            // The first error is the one to report.
            try? queue.end()
            lock.end()
            throw error
        }
    }

    private static func takeOut(_ entities: [String]?, _ db: Database) throws -> ReplacedTables {
        let catalog = try EntityCatalog(db)
        let schema = try StoreSchema(db)
        let chosen =
            try entities.map { try Tracking.choose($0, from: catalog) } ?? Array(catalog.tracked.values)
        for entity in chosen {
            try TrackingPlan.removeObjects(of: entity, schema, db)
            let name = "\(RecordingFormat.prefix)\(entity.shape)_\(followingRole)"
            try db.execute(
                sql:
                    "CREATE TRIGGER \(name) AFTER DELETE ON \(SQLText.name(entity.name)) WHEN 0 BEGIN SELECT 1; END"
            )
        }
        return ReplacedTables(before: schema)
    }

    private static func dataVersion(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA data_version") ?? 0
    }

    /// Lets the command that starts next keep the daemon from the store, even if this process is killed.
    package func inherit() { lock.inherit() }

    /// Restores the triggers on the present tables, and ends the migration.
    ///
    /// - Returns: What was done. Its `recreated` are the entities that every consumer is notified of.
    /// - Throws: `HistoryError`. The triggers are then missing until the tracking is next updated.
    package func end() throws -> Tracking.Outcome {
        defer { lock.end() }
        let isSameFile = FileID(of: path) == file
        let result = Result {
            try HistoryError.translating(path) {
                try isSameFile ? queue.inSoloTransaction { db in try putBack(db) } : nil
            }
        }
        try HistoryError.translating(path) { try queue.end() }
        return try result.get() ?? Tracking.refresh(path, timeout: Self.timeout)
    }

    /// Ends the migration as the end of its process would: the triggers stay missing.
    func abandon() {
        try? queue.end()
        lock.end()
    }

    private func putBack(_ db: Database) throws -> Tracking.Outcome {
        let isComplete = try Self.dataVersion(db) == dataVersion
        let plan = try TrackingPlan(db, entities: [:], all: false)
        let replacements = replaced.replacements(of: plan.dropped, in: plan.schema)
        if replacements.isEmpty { return try plan.carryOut(db, isComplete: isComplete) }
        return try TrackingPlan(
            db, entities: replacements.mapValues(\.preserved), all: false,
            replacing: Dictionary(replacements.map { ($1.replaced, $0) }) { first, _ in first }
        ).carryOut(db, isComplete: isComplete)
    }
}

/// Tells other processes that a migration has removed a store's triggers.
///
/// It is a lock of the open file description (fcntl(2)) on one byte of the store, far behind everything
/// that SQLite reads, writes or locks, and before the leases (see `StoreLease`). The migration's command
/// inherits the descriptor. So the lock lasts until it is released, or until both processes have ended,
/// in whatever way.
struct MigrationLock: Sendable {
    private static let byte = StoreLease.start - 1
    /// F_OFD_GETLK and F_OFD_SETLK from Linux's fcntl.h, which glibc exposes to GNU sources only.
    private static let (askForLock, setLock): (Int32, Int32) = (36, 37)

    private let descriptor: Int32

    /// - Throws: `HistoryError` with `.storeBusy` if another migration runs.
    init(_ path: String) throws {
        // Opened for writing, so that processes that watch the store notice the end: closing it looks
        // like the end of a write.
        descriptor = Glibc.open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw HistoryError(
                .storeUnreadable,
                "\"\(path)\" cannot be opened for a migration: \(String(cString: strerror(errno))).",
                hint: "Run the migration as a user that may write to the store.")
        }
        var lock = Self.lock(F_WRLCK)
        if fcntl(descriptor, Self.setLock, &lock) != 0, errno == EAGAIN || errno == EACCES {
            Glibc.close(descriptor)
            throw Self.underWay(path)
        }
    }

    /// Releases the lock. All connections of this process to the store must be closed first: closing any
    /// descriptor of a file drops SQLite's locks on it.
    func end() {
        // Released explicitly, because a process that the command has left behind may have the
        // descriptor.
        var lock = Self.lock(F_UNLCK)
        _ = fcntl(descriptor, Self.setLock, &lock)
        Glibc.close(descriptor)
    }

    /// Lets processes that start from now on inherit it.
    func inherit() { _ = fcntl(descriptor, F_SETFD, 0) }

    static func underWay(_ path: String) -> HistoryError {
        HistoryError(
            .storeBusy, "A migration of the store \"\(path)\" is running, so its triggers are not changed.",
            hint: "They are updated when the migration has ended.")
    }

    private static func lock(_ type: Int32) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(byte)
        lock.l_len = 1
        return lock
    }

    /// Whether a migration runs, checked through an open descriptor of the store.
    fileprivate static func isHeld(_ descriptor: Int32) -> Bool {
        var lock = lock(F_WRLCK)
        return fcntl(descriptor, askForLock, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }
}

extension WriterProbe {
    /// Whether a migration has removed the store's triggers.
    var isMigrating: Bool { withStore { MigrationLock.isHeld($0) } }

    /// The same for a store to which this process may have connections (`isUsedInProcess`). A store that
    /// cannot be opened counts as not being migrated: its next user gets the error.
    static func isMigrating(_ path: String, isUsedInProcess: Bool) -> Bool {
        guard let probe = try? WriterProbes.shared.take(path) else { return false }
        defer { WriterProbes.shared.end(probe, isUsedInProcess: isUsedInProcess) }
        return probe.isMigrating
    }
}
