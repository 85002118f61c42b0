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
final class Replica {
    let context: ReplicaContext
    private var path: String { context.path }
    private let storePath: String
    private var opened: OpenReplica?
    private var isDamaged = false

    init(_ context: ReplicaContext, storePath: String) {
        self.context = context
        self.storePath = storePath
    }

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
    /// - Throws: `HistoryError`.
    func prepare(isKnown: Bool = false, _ store: StoreSnapshots) throws -> Preparation {
        if let opened, !isDamaged, opened.file.isThere { return Preparation(number: opened.position.taken) }
        close()
        var movedAside: String?
        if isDamaged {
            movedAside = try ReplicaFile.moveAside(path)
            isDamaged = false
        }
        let (header, encoding) = try store.read { db in (try HistoryHeader(db), try StoreEncoding(db)) }
        var opened: OpenReplica
        let position: ReplicaFile.Position?
        do {
            (opened, position) = try open(encoding)
        } catch let error as HistoryError where error.code == .replicaDamaged && isKnown {
            movedAside = try ReplicaFile.moveAside(path)
            (opened, position) = try open(encoding)
        }
        if let position, position.store == header.storeID, position.taken >= header.floor,
            position.taken <= max(header.newest, header.floor)
        {
            self.opened = opened
            return Preparation(number: position.taken, movedAside: movedAside)
        }
        let leftOut = try noticingDamage {
            try store.read { db in
                try opened.follow(db)
                return try opened.fill(from: db)
            }
        }
        self.opened = opened
        return Preparation(
            number: opened.position.taken, isFilled: true, movedAside: movedAside, leftOut: leftOut)
    }

    private func open(_ encoding: StoreEncoding) throws -> (OpenReplica, ReplicaFile.Position?) {
        let file = try ReplicaFile(path, context.access, encoding: encoding)
        let (position, shape) = try file.access { db in (try file.position(db), try ReplicaShape(replica: db)) }
        return (OpenReplica(file, at: position, shape, of: context, storePath: storePath), position)
    }

    /// Ends the connections; the next preparation opens them again.
    func close() {
        guard let opened else { return }
        self.opened = nil
        // Nothing is written here: a failure to close loses nothing, and the next opening reports it.
        try? opened.file.close()
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

    /// The bytes of the replica's write-ahead log, which grows while a reader stays in one transaction.
    var logSize: Int64 { opened?.file.logSize ?? 0 }

    private func noticingDamage<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as HistoryError where error.code == .replicaDamaged {
            isDamaged = true
            throw error
        }
    }

    private func requireOpened() throws -> OpenReplica {
        if let opened, !isDamaged, opened.file.isThere { return opened }
        throw HistoryError(
            .replicaUnwritable, "The replica \"\(path)\" is gone.", hint: "It is created again.")
    }

    // MARK: Merging

    /// What came of a merge.
    struct Merged: Equatable {
        /// The transactions that were not merged before.
        var transactions = 0
        /// Whether the replica shows them already.
        var isShown = true
        var leftOut: [ReplicaContext.LeftOut] = []
    }

    /// Whether it shows all that it has taken in.
    var isLevel: Bool { opened?.isLevel ?? true }

    /// Reads the rows of the changed objects from a snapshot of the store that has nothing newer.
    ///
    /// - Parameters:
    ///   - transactions: Those that may be merged.
    ///   - batch: All that were fetched with them.
    ///   - end: The newest change in the snapshot.
    /// - Throws: `HistoryError`.
    func stage(
        _ transactions: [HistoryTransaction], of batch: [HistoryTransaction], through end: Int64,
        from store: Database
    ) throws {
        let opened = try requireOpened()
        if opened.hasStaged(for: end) || end < opened.position.taken { return }
        try change { opened in
            opened.unstage()
            try opened.follow(store)
        }
        try change { try $0.stage(transactions, of: batch, through: end, from: store) }
    }

    /// Takes in the changes of transactions, in one transaction with the replica's position.
    ///
    /// - Parameters:
    ///   - end: The position that the replica has afterwards.
    ///   - history: From which the changes of large transactions are read.
    /// - Throws: `HistoryError`.
    @discardableResult
    func merge(
        _ transactions: [HistoryTransaction], through end: Int64, reading history: HistoryReader? = nil
    ) throws -> Merged {
        try change { try $0.merge(transactions, through: end, reading: history) }
    }

    /// Shows all that it has taken in, and follows the store's schema.
    ///
    /// - Parameter store: A snapshot that has nothing newer.
    /// - Throws: `HistoryError`.
    func level(from store: Database) throws -> Merged {
        try change { try $0.follow(store) }
        return try change { try $0.level(from: store) }
    }

    private func change<T>(_ body: (inout OpenReplica) throws -> T) throws -> T {
        var opened = try requireOpened()
        let result = try noticingDamage { try body(&opened) }
        self.opened = opened
        return result
    }
}
