import GRDB

/// A replica that is in use.
///
/// The rows and the position that they show are written in one transaction: a kill at any moment neither
/// loses nor repeats a merge.
///
/// A merge has two steps, with the hooks between them. After a batch is fetched, the rows of its objects
/// are read (`stage`) in a snapshot of the store that contains nothing newer than the batch. So the rows
/// are from the batch's end, however long the hooks take. Then they are copied into the replica
/// (`merge`). If nothing was read, or the snapshot contained more because the consumer has yet to catch
/// up, the store's rows may belong to half of a later transaction. The objects are then only noted. The
/// replica keeps showing the last state at which it had caught up, until it catches up again (`level`).
///
/// What is known of the file changes only after a write to it has succeeded.
final class Replica {
    let context: ReplicaContext
    let storePath: String
    let snapshots: StoreSnapshots
    /// Used to read large transactions.
    let history: HistoryReader?
    /// Its consumer's author.
    let consumer: String
    let reporter: any PipelineReporter
    var path: String { context.path }
    /// Which rows it has; nil for those of every tracked entity. Operations play no part: it makes the rows of what
    /// has changed equal to the store's.
    var entities: Set<BinaryText>? { context.entities }

    /// Nil while it is closed.
    private var file: ReplicaFile?
    private var isDamaged = false
    var position = ReplicaFile.Position(store: StoreID.none, number: 0, taken: 0)
    /// What the replica contains.
    var shape = ReplicaShape()
    /// The store's tables and indexes, as of `schemaVersion`.
    var storeShape = ReplicaShape()
    var schemaVersion: Int64 = -1
    var tables: [BinaryText: ReplicaTable] = [:]
    var tablesMade = 0
    var staged: Staged?
    /// The entities of which anything was read.
    var used: Set<BinaryText> = []
    var isOutdated = true
    /// Whether it could not be settled because the store had newer history, in this run or the previous
    /// one.
    var isOvertaken = false
    /// Whether it was reported that its write-ahead log is long.
    var hasReportedLog = false

    /// - Parameter snapshots: A connection to the store, which a consumer's replicas share.
    init(
        _ context: ReplicaContext, of consumer: String, in source: any HistorySource, snapshots: StoreSnapshots,
        reporter: any PipelineReporter
    ) {
        (self.context, self.consumer, self.snapshots, self.reporter) = (context, consumer, snapshots, reporter)
        storePath = source.path
        history = source.recorder
    }

    /// A replica without a consumer.
    init(_ context: ReplicaContext, storePath: String) {
        (self.context, self.storePath) = (context, storePath)
        (consumer, history, reporter) = ("", nil, SilentReporter())
        snapshots = StoreSnapshots(storePath)
    }

    /// Whether it shows everything that it has merged.
    var isLevel: Bool { file == nil || position.number == position.taken }

    /// The last merged transaction; nil if it was never filled.
    var token: HistoryToken? {
        position.store == .none ? nil : HistoryToken(store: position.store, number: position.taken)
    }

    /// The size of the replica's write-ahead log in bytes. It grows while a reader stays in one
    /// transaction.
    var logSize: Int64 { file?.logSize ?? 0 }

    // MARK: Opening

    /// Opens the replica. It is filled from one snapshot of the store if it is new, was deleted, belongs
    /// to another store, is ahead of its store, or its position has expired.
    ///
    /// - Returns: Whether it was filled now.
    @discardableResult
    func prepare() throws -> Bool {
        if isOpen { return false }
        _ = try openFile(isKnown: false)
        if let token, try snapshots.read({ store in try isRight(token, in: store) }) { return false }
        _ = try fill()
        return true
    }

    /// Whether the merged transactions are those of the store, and the following history exists.
    private func isRight(_ token: HistoryToken, in store: Database) throws -> Bool {
        let header = try HistoryHeader(store, fingerprintAt: token.number)
        return header.bounds.loss(at: token) == nil && !header.isReplaced(fingerprint)
    }

    var isOpen: Bool { !isDamaged && file?.isThere ?? false }

    /// - Parameter isKnown: Whether a replica of this consumer is known to have existed here. Only then
    ///   is a damaged file moved aside, to be created again.
    /// - Returns: The new path of a damaged file.
    func openFile(isKnown: Bool) throws -> String? {
        close()
        var movedAside: String?
        if isDamaged {
            movedAside = try ReplicaFile.moveAside(path)
            isDamaged = false
        }
        let encoding = try snapshots.read { try StoreEncoding($0) }
        do {
            try openFile(encoding)
        } catch let error as HistoryError where error.code == .replicaDamaged && isKnown {
            movedAside = try ReplicaFile.moveAside(path)
            try openFile(encoding)
        }
        return movedAside
    }

    private func openFile(_ encoding: StoreEncoding) throws {
        let file = try ReplicaFile(path, context.access, encoding: encoding)
        let (found, shape) = try file.access { db in (try file.position(db), try ReplicaShape(replica: db)) }
        self.file = file
        position = found ?? ReplicaFile.Position(store: StoreID.none, number: 0, taken: 0)
        (self.shape, storeShape, schemaVersion) = (shape, ReplicaShape(), -1)
        (tables, staged, used) = ([:], nil, [])
    }

    /// Rebuilds everything from one snapshot of the store.
    func fill() throws -> [ReplicaContext.LeftOut] {
        do {
            return try snapshots.read { try fill(from: $0) }
        } catch {
            close()
            throw error
        }
    }

    /// Closes the connections. The next preparation opens them again.
    func close() {
        // Nothing is written here: a failure to close loses nothing, and the next opening reports it.
        try? file?.close()
        file = nil
    }

    /// Runs a body with the replica's file, which must be open.
    func withFile<T>(_ body: (ReplicaFile) throws -> T) throws -> T {
        guard let file, isOpen else {
            throw HistoryError(
                .replicaUnwritable, "The replica \"\(path)\" is gone.", hint: "It is created again.")
        }
        do {
            return try body(file)
        } catch let error as HistoryError where error.code == .replicaDamaged {
            isDamaged = true
            throw error
        }
    }
}
