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

    init(_ context: ReplicaContext, storePath: String) {
        self.context = context
        self.storePath = storePath
    }

    /// Whether it shows all that it has taken in.
    var isLevel: Bool { file == nil || position.number == position.taken }

    /// The bytes of the replica's write-ahead log, which grows while a reader stays in one transaction.
    var logSize: Int64 { file?.logSize ?? 0 }

    // MARK: Opening

    /// What came of opening a replica.
    struct Preparation: Equatable {
        /// How far in the history it has taken in changes.
        let number: Int64
        /// Whether it was just filled.
        var isFilled = false
        /// Where a damaged file was moved.
        var movedAside: String?
        var leftOut: [ReplicaContext.LeftOut] = []
    }

    /// Opens the replica, and fills it from one snapshot of the store where it is new, was deleted,
    /// is another store's, ahead of its store, or its position in the history has expired.
    ///
    /// - Parameters:
    ///   - isKnown: Whether a replica of this consumer is known to have been here: only then a
    ///     damaged file is moved away, to be created again.
    ///   - store: Runs a body in a snapshot of the store.
    func prepare(isKnown: Bool = false, _ store: StoreSnapshots) throws -> Preparation {
        if let file, !isDamaged, file.isThere { return Preparation(number: position.taken) }
        close()
        var movedAside: String?
        if isDamaged {
            movedAside = try ReplicaFile.moveAside(path)
            isDamaged = false
        }
        let (header, encoding) = try store.read { db in (try HistoryHeader(db), try StoreEncoding(db)) }
        let found: ReplicaFile.Position?
        do {
            found = try open(encoding)
        } catch let error as HistoryError where error.code == .replicaDamaged && isKnown {
            movedAside = try ReplicaFile.moveAside(path)
            found = try open(encoding)
        }
        if let found, found.store == header.storeID, found.taken >= header.floor,
            found.taken <= max(header.newest, header.floor)
        {
            return Preparation(number: found.taken, movedAside: movedAside)
        }
        do {
            let leftOut = try store.read { try fill(from: $0) }
            return Preparation(
                number: position.taken, isFilled: true, movedAside: movedAside, leftOut: leftOut)
        } catch {
            close()
            throw error
        }
    }

    /// - Returns: Nil for one that was never filled.
    private func open(_ encoding: StoreEncoding) throws -> ReplicaFile.Position? {
        let file = try ReplicaFile(path, context.access, encoding: encoding)
        let (found, shape) = try file.access { db in (try file.position(db), try ReplicaShape(replica: db)) }
        self.file = file
        position = found ?? ReplicaFile.Position(store: StoreID.none, number: 0, taken: 0)
        (self.shape, storeShape, schemaVersion) = (shape, ReplicaShape(), -1)
        (tables, staged, used) = ([:], nil, [])
        return found
    }

    /// Ends the connections; the next preparation opens them again.
    func close() {
        // Nothing is written here: a failure to close loses nothing, and the next opening reports it.
        try? file?.close()
        file = nil
    }

    /// Forgets the replica's position, so that it is filled again by the next preparation.
    ///
    /// - Throws: `HistoryError` with `.replicaUnwritable` or `.replicaDamaged`.
    func resync() throws {
        close()
        // One that is made is filled anyway, and by then the store's encoding is known.
        guard FileID(of: path) != nil else { return }
        let file = try ReplicaFile(path, context.access, encoding: .utf8)
        try file.access { db in try db.execute(sql: "DELETE FROM historyd_replica") }
        try ReplicaFile.translating(path) { try file.close() }
    }

    /// Runs a body with the replica's file, which has to be open.
    func withFile<T>(_ body: (ReplicaFile) throws -> T) throws -> T {
        guard let file, !isDamaged, file.isThere else {
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

/// The default merge of one replica, as a separate part.
///
/// A merge hook may merge with it in its own way, beside the daemon's or the tracker's own merging.
public actor ReplicaMerger: HistoryContext {
    /// The replica that is merged into.
    public nonisolated let context: ReplicaContext
    /// The replica's name.
    public nonisolated var name: String { context.name }
    private let replica: Replica
    private let snapshots: StoreSnapshots

    /// A merger of one replica.
    ///
    /// - Parameters:
    ///   - context: The replica.
    ///   - storePath: The store from which the rows are read.
    public init(_ context: ReplicaContext, storePath: String) {
        self.context = context
        replica = Replica(context, storePath: storePath)
        snapshots = StoreSnapshots(storePath)
    }

    /// Opens the replica, and fills it from a snapshot of the store if it is new, belongs to another store, or has
    /// an expired position.
    ///
    /// - Returns: The replica's position in the history, and whether it was just filled.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func prepare() throws -> (number: Int64, isFilled: Bool) {
        let preparation = try replica.prepare(snapshots)
        return (preparation.number, preparation.isFilled)
    }

    /// Copies the rows of changed objects to the replica, in one transaction with its position.
    ///
    /// The replica shows the rows when the store has nothing newer than `end`. Before that, some of them might
    /// already belong to a later transaction.
    ///
    /// - Parameters:
    ///   - transactions: The fetched transactions, in order.
    ///   - end: The replica's position afterwards.
    /// - Returns: How many of the transactions it had not merged before.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func merge(_ transactions: [HistoryTransaction], through end: Int64) throws -> Int {
        try prepare()
        try snapshots.read { store in
            guard try HistoryHeader(store).newest == end else { return }
            try replica.stage(transactions, of: transactions, through: end, from: store)
        }
        return try replica.merge(transactions, through: end).transactions
    }

    /// How far in the history it has taken in changes.
    public func checkpoint() throws -> HistoryToken? {
        let number = try replica.prepare(snapshots).number
        return try snapshots.read { store in
            HistoryToken(store: try HistoryHeader(store).storeID, number: number)
        }
    }

    /// As `merge(_:through:)` with the token's number.
    public func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
        try merge(transactions, through: token.number)
    }

    /// Fills it again from a snapshot of the store.
    public func refill(from store: StoreSnapshot) throws {
        try replica.resync()
        try prepare()
    }

    /// Ends the connections; the next use opens them again.
    public func close() {
        replica.close()
        snapshots.close()
    }
}
