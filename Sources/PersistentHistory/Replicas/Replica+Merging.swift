import GRDB

/// Copies rows from the store, each time in one transaction with the position that they show.
extension Replica {
    /// Reads which tables the store has, if its schema has changed.
    private func follow(_ store: Database, _ file: ReplicaFile) throws {
        let version = try store.currentSchemaVersion()
        guard version != schemaVersion else { return }
        let shape = try ReplicaShape(store: store, wanted: entities)
        let schema = try StoreSchema(store)
        var tables: [BinaryText: ReplicaTable] = [:]
        for name in shape.tables.keys {
            tablesMade += 1
            tables[name] = try ReplicaTable(name.text, number: tablesMade, in: schema, at: storePath)
        }
        try file.access { replica in
            try WantedObjects.make(replica)
            for table in self.tables.values { try table.end(replica) }
            for table in tables.values { try table.begin(replica) }
        }
        (storeShape, self.tables, schemaVersion) = (shape, tables, version)
        (staged, used) = (nil, [])
    }

    /// Rebuilds everything from a snapshot of the store.
    func fill(from store: Database) throws -> [ReplicaContext.LeftOut] {
        try withFile { file in
            try follow(store, file)
            let header = try HistoryHeader(store)
            let position = ReplicaFile.Position(
                store: header.storeID, number: header.newest, taken: header.newest,
                fingerprint: try HistoryHeader.fingerprint(store, at: header.newest))
            let leftOut = try file.write { replica in
                let nothing = ReplicaShape()
                try nothing.makeTables(replica, insteadOf: shape)
                try storeShape.makeTables(replica, insteadOf: nothing)
                for table in tables.values { try table.putAll(replica, from: store) }
                try PendingObjects.clear(replica)
                try file.setPosition(position, replica)
                return try storeShape.makeIndexes(replica, insteadOf: nothing)
            }
            (self.position, shape, staged) = (position, storeShape, nil)
            return leftOut
        }
    }

    // MARK: Staging

    /// What was read of the store.
    struct Staged {
        let end: Int64
        /// Whether tables or indexes have to be created or dropped.
        let changesShape: Bool
        /// Entities of which all rows were read.
        let whole: Set<BinaryText>
        /// The objects to read, besides the pending ones.
        let changed: ChangedObjects
        /// All transactions that were fetched with them.
        let batch: [HistoryTransaction]
    }

    /// Reads the rows of changed objects from a snapshot of the store that contains nothing newer.
    ///
    /// - Parameters:
    ///   - transactions: The transactions that may be merged.
    ///   - batch: All transactions that were fetched with them.
    ///   - end: The newest change in the snapshot.
    func stage(
        _ transactions: [HistoryTransaction], of batch: [HistoryTransaction], through end: Int64,
        from store: Database
    ) throws {
        try withFile { file in
            if staged?.end == end || end < position.taken { return }
            staged = nil
            try follow(store, file)
            let changed = ChangedObjects(transactions, after: position.taken, of: entities)
            var whole = storeShape.newTables(in: shape)
            var used: Set<BinaryText> = []
            try file.access { replica in
                try replica.inTransaction(.deferred) {
                    for name in self.used { try tables[name]?.emptyStaging(replica) }
                    let hasPending = try !PendingObjects.isEmpty(replica)
                    let affected = try WantedObjects.gather(changed, hasPending: hasPending, replica)
                    used = affected.union(whole).intersection(tables.keys)
                    for name in used {
                        guard let table = tables[name] else { continue }
                        if !whole.contains(name), !table.isDoubtful, try table.stage(replica, from: store) {
                            continue
                        }
                        whole.insert(name)
                        try table.stageAll(replica, from: store)
                    }
                    return .commit
                }
            }
            self.used = used
            staged = Staged(
                end: end, changesShape: storeShape != shape, whole: whole, changed: changed, batch: batch)
        }
    }

    // MARK: Merging

    /// The result of a merge.
    struct Merged: Equatable {
        /// The transactions that were not merged before.
        var transactions = 0
        /// Whether the replica shows them already.
        var isShown = true
        var leftOut: [ReplicaContext.LeftOut] = []
    }

    /// Merges the changes of transactions, in one transaction with the replica's position.
    ///
    /// - Parameters:
    ///   - end: The replica's position afterwards.
    ///   - fingerprint: The fingerprint of that position; nil if unknown.
    ///   - history: Used to read large transactions, part by part; nil if there are none.
    @discardableResult
    func merge(
        _ transactions: [HistoryTransaction], through end: Int64, _ fingerprint: String? = nil,
        reading history: HistoryReader? = nil
    ) throws -> Merged {
        try withFile { file in
            let completes = staged?.end == end && end == position.taken
            let isOutdated = position.number < end || staged?.changesShape == true
            guard end > position.taken || completes && isOutdated else { return Merged(isShown: isLevel) }
            let taken = position.taken
            let changed = ChangedObjects(transactions, after: taken, of: entities)
            let large = transactions.filter {
                $0.number > taken && $0.outline != nil && (entities.map($0.concerns) ?? true)
            }
            var merged = Merged(transactions: transactions.count { $0.number > taken })
            var (position, shape) = (self.position, self.shape)
            try file.write { replica in
                let hasPending = try !PendingObjects.isEmpty(replica)
                if large.isEmpty, let staged, mayShow(changed, staged, through: end, hasPending: hasPending) {
                    merged.leftOut = try show(changed, staged, hasPending: hasPending, replica)
                    if staged.changesShape { shape = storeShape }
                    position.number = end
                } else if large.isEmpty, changed.isEmpty, !hasPending {
                    position.number = end
                } else {
                    try PendingObjects.add(changed, at: end, replica)
                    for transaction in large {
                        try history?.forEachPart(of: transaction) { changes in
                            let part = transaction.with(changes.map(\.change))
                            let changed = ChangedObjects([part], after: taken, of: entities)
                            try PendingObjects.add(changed, at: end, replica)
                        }
                    }
                    merged.isShown = false
                }
                if end > taken { position.fingerprint = fingerprint }
                position.taken = end
                try file.setPosition(position, replica)
            }
            (self.position, self.shape) = (position, shape)
            if staged?.end == end { staged = nil }
            return merged
        }
    }

    /// Whether the rows that were read are as they were at a position.
    private func mayShow(
        _ changed: ChangedObjects, _ staged: Staged, through end: Int64, hasPending: Bool
    ) -> Bool {
        if staged.end == end { return true }
        // The batch was cut. A row that was not changed again after the cut is as it was there.
        guard staged.end > end, !staged.changesShape, staged.whole.isEmpty, !hasPending else { return false }
        return ChangedObjects(staged.batch, after: end, of: entities).isDisjoint(with: changed)
    }

    /// Copies what was read into the replica.
    private func show(
        _ changed: ChangedObjects, _ staged: Staged, hasPending: Bool, _ replica: Database
    ) throws -> [ReplicaContext.LeftOut] {
        if staged.changesShape { try storeShape.makeTables(replica, insteadOf: shape) }
        // Hooks have rejected some.
        if changed != staged.changed {
            _ = try WantedObjects.gather(changed, hasPending: hasPending, replica)
        }
        for name in used {
            guard let table = tables[name] else { continue }
            if staged.whole.contains(name) {
                try table.putAll(replica)
            } else {
                _ = try table.put(replica)
            }
        }
        if hasPending { try PendingObjects.clear(replica) }
        return staged.changesShape ? try storeShape.makeIndexes(replica, insteadOf: shape) : []
    }

    /// Shows everything that was merged, and follows the store's schema. It does so if the snapshot
    /// contains nothing newer than what was merged: hooks can then no longer affect it.
    func refresh(from store: Database) throws -> Merged {
        try withFile { file in
            try follow(store, file)
            let changesShape = storeShape != shape
            guard !isLevel || changesShape else { return Merged() }
            var position = self.position
            position.number = position.taken
            let leftOut = try file.write { replica in
                if changesShape { try storeShape.makeTables(replica, insteadOf: shape) }
                let hasPending = try !PendingObjects.isEmpty(replica)
                let new = storeShape.newTables(in: shape)
                let affected = try WantedObjects.gather(ChangedObjects(), hasPending: hasPending, replica)
                for name in affected.union(new) {
                    guard let table = tables[name] else { continue }
                    if !new.contains(name), !table.isDoubtful, try table.put(replica, from: store) { continue }
                    try table.putAll(replica, from: store)
                }
                if hasPending { try PendingObjects.clear(replica) }
                try file.setPosition(position, replica)
                return changesShape ? try storeShape.makeIndexes(replica, insteadOf: shape) : []
            }
            (self.position, shape, staged) = (position, storeShape, nil)
            return Merged(leftOut: leftOut)
        }
    }
}
