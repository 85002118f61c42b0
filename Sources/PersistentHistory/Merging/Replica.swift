import GRDB

/// A replica while it is kept.
///
/// The rows and the place in the history that they show are written in one transaction: a kill at
/// any instant neither loses nor repeats a merge.
///
/// A merge has two steps, with the hooks between them. When a batch was fetched, the rows of its
/// objects are read (`stage`), in a snapshot of the store that shows nothing newer than the batch; so the rows are of the batch's end, however long the hooks take. Then they are put into
/// the replica (`merge`). Where the snapshot shows more, because the consumer has yet to catch up,
/// the rows it has may be of half a later transaction: the objects are only noted, and the replica
/// goes on showing the last state in which it was level, until it is level again.
final class Replica {
    let context: ReplicaContext
    private var path: String { context.path }
    private let storePath: String
    private var opened: Opened?
    private var isDamaged = false

    private struct Opened {
        let file: ReplicaFile
        var place: ReplicaFile.Place
        /// What stands in the replica.
        var shape: ReplicaShape
        /// What the store has, as of `schemaVersion`.
        var storeShape = ReplicaShape()
        var tables: [String: ReplicaTable] = [:]
        var schemaVersion: Int64 = -1
        /// The entities whose temporary tables have been made, and those that hold something.
        var begun: Set<String> = []
        var used: Set<String> = []
        var staged: Staged?
    }

    /// What was read of the store.
    private struct Staged {
        let end: Int64
        /// Whether tables or indexes have to be made or taken away.
        let changesShape: Bool
        /// Entities all rows of which were read.
        let whole: Set<String>
        /// Everything that was fetched with it.
        let batch: [HistoryTransaction]
    }

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
        var leftOut: [ReplicaContext.LeftOutIndex] = []
    }

    /// Opens the replica, and fills it from one snapshot of the store where it is new, was deleted,
    /// is another store's, ahead of its store, or its place in the history has expired.
    ///
    /// - Parameters:
    ///   - isKnown: Whether a replica of this consumer is known to have been here: only then a
    ///     damaged file is moved away, to be made anew.
    ///   - store: Runs a body in a snapshot of the store.
    /// - Throws: `HistoryError`.
    func prepare(isKnown: Bool = false, _ store: StoreSnapshots) throws -> Preparation {
        if let opened, !isDamaged, opened.file.isThere { return Preparation(number: opened.place.taken) }
        close()
        var movedAside: String?
        if isDamaged {
            movedAside = try ReplicaFile.moveAside(path)
            isDamaged = false
        }
        var opened: Opened
        var place: ReplicaFile.Place?
        do {
            (opened, place) = try open()
        } catch let error as HistoryError where error.code == .replicaDamaged && isKnown {
            movedAside = try ReplicaFile.moveAside(path)
            (opened, place) = try open()
        }
        let header = try store.read { db in try HistoryHeader(db) }
        if let place, place.store == header.storeID, place.taken >= header.floor,
            place.taken <= max(header.newest, header.floor)
        {
            opened.place = place
            self.opened = opened
            return Preparation(number: place.taken, movedAside: movedAside)
        }
        let leftOut = try noticingDamage { try store.read { db in try fill(&opened, from: db) } }
        self.opened = opened
        return Preparation(
            number: opened.place.taken, isFilled: true, movedAside: movedAside, leftOut: leftOut)
    }

    private func open() throws -> (Opened, ReplicaFile.Place?) {
        let file = try ReplicaFile(path)
        let (place, shape) = try file.access { db in (try file.place(db), try ReplicaShape(replica: db)) }
        let nowhere = ReplicaFile.Place(store: StoreID(""), number: 0, taken: 0)
        return (Opened(file: file, place: place ?? nowhere, shape: shape), place)
    }

    /// Ends the connections; the next preparation opens them anew.
    func close() {
        guard let opened else { return }
        self.opened = nil
        // Nothing is written here: a failure to close loses nothing, and the next opening tells.
        try? opened.file.close()
    }

    /// Forgets the replica's place, so that it is filled anew by the next preparation.
    ///
    /// - Throws: `HistoryError` with `.replicaUnwritable` or `.replicaDamaged`.
    func resync() throws {
        close()
        let file = try ReplicaFile(path)
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

    private func requireOpened() throws -> Opened {
        if let opened, !isDamaged, opened.file.isThere { return opened }
        throw HistoryError(
            .replicaUnwritable, "The replica \"\(path)\" is gone.", hint: "It is made anew.")
    }

    // MARK: Filling

    private func fill(_ opened: inout Opened, from store: Database) throws -> [ReplicaContext.LeftOutIndex] {
        opened.staged = nil
        let header = try HistoryHeader(store)
        try refresh(&opened, store)
        return try opened.file.write { replica in
            let nothing = ReplicaShape()
            try nothing.makeTables(replica, insteadOf: opened.shape)
            try opened.storeShape.makeTables(replica, insteadOf: nothing)
            for table in opened.tables.values { try table.fill(replica, from: store) }
            let leftOut = try opened.storeShape.makeIndexes(replica, insteadOf: nothing)
            opened.shape = opened.storeShape
            opened.place = ReplicaFile.Place(
                store: header.storeID, number: header.newest, taken: header.newest)
            try replica.execute(sql: "DELETE FROM historyd_pending")
            try opened.file.setPlace(opened.place, replica)
            return leftOut
        }
    }

    /// Reads what the store has, if its schema has changed.
    private func refresh(_ opened: inout Opened, _ store: Database) throws {
        let version = try Int64.fetchOne(try store.cachedStatement(sql: "PRAGMA schema_version")) ?? 0
        guard version != opened.schemaVersion else { return }
        opened.storeShape = try ReplicaShape(store: store, wanted: context.entities)
        opened.tables = [:]
        for (number, name) in opened.storeShape.tables.keys.sorted().enumerated() {
            opened.tables[name] = try ReplicaTable(name, number: number, in: store, at: storePath)
        }
        opened.begun = []
        opened.used = []
        opened.schemaVersion = version
    }

    // MARK: Staging

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
        var opened = try requireOpened()
        if opened.staged?.end == end || end < opened.place.taken { return }
        opened.staged = nil
        self.opened = opened
        let changed = changedObjects(transactions, after: opened.place.taken)
        try noticingDamage {
            try refresh(&opened, store)
            let whole = try read(changed, from: store, &opened)
            opened.staged = Staged(
                end: end, changesShape: opened.storeShape != opened.shape, whole: whole, batch: batch)
        }
        self.opened = opened
    }

    /// Copies rows to the temporary tables, and tells of which entities all of them.
    private func read(
        _ changed: [String: Set<ObjectID>], from store: Database, _ opened: inout Opened
    ) throws -> Set<String> {
        var whole = opened.storeShape.newTables(in: opened.shape)
        let file = opened.file
        try file.access { replica in
            try replica.inTransaction(.deferred) {
                for name in opened.used { try opened.tables[name]?.emptyStaging(replica) }
                opened.used = []
                let hasPending = try file.hasPending(replica)
                for (name, table) in opened.tables {
                    let objects = changed[name] ?? []
                    guard hasPending || !objects.isEmpty || whole.contains(name) else { continue }
                    if opened.begun.insert(name).inserted { try table.beginStaging(replica) }
                    opened.used.insert(name)
                    if !objects.allSatisfy(table.knows) { whole.insert(name) }
                    var pending = hasPending ? try file.pending(name, replica) : nil
                    while !whole.contains(name), let row = try pending?.next() {
                        if let object = table.object(row["object"]) {
                            try table.stage(object, replica, from: store)
                        } else {
                            whole.insert(name)
                        }
                    }
                    pending = nil
                    if whole.contains(name) {
                        try table.emptyStaging(replica)
                        try table.stageAll(replica, from: store)
                    } else {
                        for object in objects { try table.stage(object, replica, from: store) }
                    }
                }
                return .commit
            }
        }
        return whole
    }

    /// Each changed object once, by entity.
    private func changedObjects(_ transactions: [HistoryTransaction], after number: Int64)
        -> [String: Set<ObjectID>]
    {
        var objects: [String: Set<ObjectID>] = [:]
        for transaction in transactions where transaction.token.number > number {
            for change in transaction.changes where context.entities?.contains(change.entity.name) ?? true {
                objects[change.entity.name, default: []].insert(change.objectID)
            }
        }
        return objects
    }

    // MARK: Merging

    /// What came of a merge.
    struct Merged: Equatable {
        /// The transactions that were not merged before.
        var transactions = 0
        /// Whether the replica shows them already.
        var isShown = true
        var leftOut: [ReplicaContext.LeftOutIndex] = []
    }

    /// Takes in the changes of transactions, in one transaction with the replica's place.
    ///
    /// - Parameter end: The place that the replica has afterwards.
    /// - Throws: `HistoryError`.
    @discardableResult
    func merge(_ transactions: [HistoryTransaction], through end: Int64) throws -> Merged {
        var opened = try requireOpened()
        let staged = opened.staged
        let settles = staged?.end == end && end == opened.place.taken
        let isOutdated = opened.place.number < end || staged?.changesShape == true
        guard end > opened.place.taken || settles && isOutdated else {
            return Merged(isShown: opened.place.number == opened.place.taken)
        }
        let changed = changedObjects(transactions, after: opened.place.taken)
        var merged = Merged(transactions: transactions.count { $0.token.number > opened.place.taken })
        try noticingDamage {
            try opened.file.write { replica in
                let hasPending = try opened.file.hasPending(replica)
                if let staged, mayShow(changed, staged, through: end, hasPending: hasPending) {
                    merged.leftOut = try show(changed, staged, &opened, replica)
                    opened.place.number = end
                } else if changed.isEmpty, !hasPending {
                    opened.place.number = end
                } else {
                    try opened.file.addPending(changed, replica)
                    merged.isShown = false
                }
                opened.place.taken = end
                try opened.file.setPlace(opened.place, replica)
            }
        }
        if staged?.end == end { opened.staged = nil }
        self.opened = opened
        return merged
    }

    /// Whether the rows that were read are as they were at a place.
    private func mayShow(
        _ changed: [String: Set<ObjectID>], _ staged: Staged, through end: Int64, hasPending: Bool
    ) -> Bool {
        if staged.end == end { return true }
        // The batch is cut short. What was not changed again behind the cut is as it was there.
        guard staged.end > end, !staged.changesShape, staged.whole.isEmpty, !hasPending else { return false }
        return changedObjects(staged.batch, after: end)
            .allSatisfy { $0.value.isDisjoint(with: changed[$0.key] ?? []) }
    }

    /// Puts what was read into the replica: first all objects are taken away, then those that the
    /// store has are put in, so that values of a unique index may change places.
    private func show(
        _ changed: [String: Set<ObjectID>], _ staged: Staged, _ opened: inout Opened, _ replica: Database
    ) throws -> [ReplicaContext.LeftOutIndex] {
        let old = opened.shape
        if staged.changesShape { try opened.storeShape.makeTables(replica, insteadOf: old) }
        let hasPending = try opened.file.hasPending(replica)
        for name in opened.used {
            guard let table = opened.tables[name] else { continue }
            if staged.whole.contains(name) {
                try table.removeAll(replica)
                try table.putAll(replica)
                continue
            }
            let objects = changed[name] ?? []
            for object in objects { try table.remove(object, replica) }
            if hasPending {
                let pending = try opened.file.pending(name, replica)
                while let row = try pending.next() {
                    if let object = table.object(row["object"]) { try table.remove(object, replica) }
                }
                let again = try opened.file.pending(name, replica)
                while let row = try again.next() {
                    if let object = table.object(row["object"]) { try table.put(object, replica) }
                }
            }
            for object in objects { try table.put(object, replica) }
        }
        if hasPending { try replica.execute(sql: "DELETE FROM historyd_pending") }
        guard staged.changesShape else { return [] }
        opened.shape = opened.storeShape
        return try opened.storeShape.makeIndexes(replica, insteadOf: old)
    }
}
