import GRDB

/// A replica while it is kept.
///
/// The rows and the position in the history that they show are written in one transaction: a kill at
/// any instant neither loses nor repeats a merge.
///
/// A merge has two steps, with the hooks between them. When a batch was fetched, the rows of its
/// objects are read (`stage`), in a snapshot of the store that shows nothing newer than the batch; so
/// the rows are of the batch's end, however long the hooks take. Then they are put into the replica
/// (`merge`). Where nothing was read, or the snapshot showed more, because the consumer has yet to
/// catch up, its rows may be of half a later transaction: the objects are only noted, and the replica
/// keeps showing the last state at which it had caught up, until it catches up again (`level`).
///
/// What is known of the file changes when a write to it has succeeded.
final class Replica {
    let context: ReplicaContext
    let storePath: String
    let snapshots: StoreSnapshots
    /// From which large transactions are read.
    let history: HistoryReader?
    /// Its consumer's author.
    let consumer: String
    let reporter: any PipelineReporter
    var path: String { context.path }
    var wanted: Set<BinaryText>? { context.entities }

    /// Nil while it is closed.
    private var file: ReplicaFile?
    private var isDamaged = false
    var position = ReplicaFile.Position(store: StoreID.none, number: 0, taken: 0)
    /// What the replica contains.
    var shape = ReplicaShape()
    /// What the store has, as of `schemaVersion`.
    var storeShape = ReplicaShape()
    var schemaVersion: Int64 = -1
    var tables: [BinaryText: ReplicaTable] = [:]
    var tablesMade = 0
    var staged: Staged?
    /// The entities of which something was read.
    var used: Set<BinaryText> = []
    var isUnsettled = true
    /// Whether it could not be settled, because the store had gone on, in this run or the one before.
    var isOvertaken = false
    /// Whether its write-ahead log is long, which has been reported.
    var hasReportedLog = false

    /// - Parameter snapshots: A connection to the store, which the replicas of a consumer share.
    init(
        _ context: ReplicaContext, of consumer: String, in source: any HistorySource, snapshots: StoreSnapshots,
        reporter: any PipelineReporter
    ) {
        (self.context, self.consumer, self.snapshots, self.reporter) = (context, consumer, snapshots, reporter)
        storePath = source.path
        history = source.recorder
    }

    /// One without a consumer.
    init(_ context: ReplicaContext, storePath: String) {
        (self.context, self.storePath) = (context, storePath)
        (consumer, history, reporter) = ("", nil, SilentReporter())
        snapshots = StoreSnapshots(storePath)
    }

    /// Whether it shows all that it has taken in.
    var isLevel: Bool { file == nil || position.number == position.taken }

    /// How far it has taken in changes; nil for one that was never filled.
    var token: HistoryToken? {
        position.store == .none ? nil : HistoryToken(store: position.store, number: position.taken)
    }

    /// The bytes of the replica's write-ahead log, which grows while a reader stays in one transaction.
    var logSize: Int64 { file?.logSize ?? 0 }

    // MARK: Opening

    /// Opens the replica, and fills it from one snapshot of the store where it is new, was deleted,
    /// is another store's, ahead of its store, or its position in the history has expired.
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

    /// Whether the transactions that it has taken in are those of the store, and what follows them is there.
    private func isRight(_ token: HistoryToken, in store: Database) throws -> Bool {
        let header = try HistoryHeader(store, fingerprintAt: token.number)
        return header.bounds.loss(at: token) == nil && !header.isReplaced(fingerprint)
    }

    var isOpen: Bool { !isDamaged && file?.isThere ?? false }

    /// - Parameter isKnown: Whether a replica of this consumer is known to have been here: only then a damaged file is
    ///   moved away, to be created again.
    /// - Returns: Where a damaged file was moved.
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

    /// Makes everything as it is in one snapshot of the store.
    func fill() throws -> [ReplicaContext.LeftOut] {
        do {
            return try snapshots.read { try fill(from: $0) }
        } catch {
            close()
            throw error
        }
    }

    /// Ends the connections; the next preparation opens them again.
    func close() {
        // Nothing is written here: a failure to close loses nothing, and the next opening reports it.
        try? file?.close()
        file = nil
    }

    /// Runs a body with the replica's file, which has to be open.
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
