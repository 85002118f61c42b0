/// Replicas: what they show is of one moment of the store, and the state knows where they were filled.
extension ContextKeeper {
    /// More than this in a replica's write-ahead log is worth a word.
    private static let muchLog: Int64 = 256 << 20

    // MARK: Opening

    /// - Returns: Whether the replica was written.
    func open(_ replica: Replica, cursor: Int64) async throws -> ContextTroubles.Stage {
        let context = replica.context
        let isReady = positions[context.name] != nil
        let known =
            isReady
            ? ReplicaStore.Known(isHere: true)
            : try state.replicas.known(context.name, of: consumer.author, at: context.path)
        // It may be ahead of its consumer, whose checkpoint then does not show that the store was restored.
        if try known.needsFilling || known.isReplaced(in: source) { try replica.resync() }
        let preparation = try prepare(replica, isKnown: known.isHere)
        if isReady, !preparation.isFilled { return .opened }
        if !replica.isLevel { overtaken.insert(context.name) }
        let position = try await catchUp(from: preparation.number, to: cursor) { missed, end in
            try replica.merge(missed, through: end, reading: source.recorder)
        } refill: { expiry in
            // Tables that were made again are copied as they are.
            if expiry.reason == .recreated { return nil }
            try replica.resync()
            return try prepare(replica).number
        }
        positions[context.name] = position
        unsettled.insert(context.name)
        return preparation.isFilled || position > preparation.number ? .written : .opened
    }

    private func prepare(_ replica: Replica, isKnown: Bool = false) throws -> Replica.Preparation {
        let (author, context) = (consumer.author, replica.context)
        let preparation = try replica.prepare(isKnown: isKnown, snapshots)
        let position = preparation.number
        if let newPath = preparation.movedAside {
            reporter.report(.replicaMovedAside(consumer: author, context: context.name, to: newPath))
        }
        if preparation.isFilled {
            let token = HistoryToken(store: source.storeID, number: position)
            reporter.report(.replicaFilled(consumer: author, context: context.name, at: token))
        }
        report(preparation.leftOut, of: context)
        if preparation.isFilled || !isKnown {
            let filling = preparation.isFilled ? try source.checkpoint(at: position, state.clock) : nil
            try state.replicas.save(context.name, of: author, at: context.path, filling: filling)
        }
        return preparation
    }

    private func report(_ leftOut: [ReplicaContext.LeftOut], of context: ReplicaContext) {
        let (author, name) = (consumer.author, context.name)
        for part in leftOut {
            switch part.kind {
            case .table: reporter.report(.replicaTableLeftOut(consumer: author, context: name, part))
            case .index: reporter.report(.replicaIndexLeftOut(consumer: author, context: name, part))
            }
        }
    }

    /// The store's schema has changed.
    func followSchema() { unsettled = Set(consumer.contexts.map(\.name)) }

    // MARK: Merging

    /// Reads the rows of a batch, before the hooks have their say.
    ///
    /// All is read in one snapshot of the store. What writers have committed since the batch was
    /// fetched becomes part of it: rows may be read only if nothing newer is there.
    ///
    /// - Returns: The batch as it is to be delivered.
    func stage(_ batch: HistoryBatch, cursor: Int64, takesOwn: Bool) async throws -> HistoryBatch {
        try await tend(cursor: cursor)
        let ready = replicas.filter { positions[$0.context.name] != nil }
        guard batch.isLast, !ready.isEmpty, let recorder = source.recorder else { return batch }
        return try snapshots.read { store in
            let batch = try recorder.batch(store, after: cursor, beginningAs: batch)
            guard batch.isLast else { return batch }
            let own = takesOwn ? consumer.rule.own(batch.transactions, after: cursor, of: consumer.author) : []
            let wanted = PendingMerge(relevant(batch, after: cursor), own: own, after: cursor, end: batch.end)
                .toMerge
            // Of a large transaction the objects are noted when it is merged, and their rows are read when settled.
            if wanted.isEmpty || wanted.contains(where: { $0.outline != nil }) { return batch }
            let isMuch = wanted.lazy.map(\.changes.count).reduce(0, +) > HistoryReader.batchSize
            for replica in ready {
                // Much is cheaper to settle, when no hook has a say in it any more; but where writers are busy
                // there may never be a moment for that.
                guard replica.isLevel && !isMuch || overtaken.contains(replica.context.name) else { continue }
                try attempting(replica.context.name, .written) {
                    try replica.stage(wanted, of: batch.transactions, through: batch.end, from: store)
                    return .opened
                }
            }
            return batch
        }
    }

    func merge(_ merge: PendingMerge, into replica: Replica) throws {
        let (author, context) = (consumer.author, replica.context)
        let merged = try replica.merge(merge.toMerge, through: merge.end, reading: source.recorder)
        positions[context.name] = max(positions[context.name] ?? 0, merge.end)
        if !merged.isShown { unsettled.insert(context.name) }
        report(merged.leftOut, of: context)
        let logSize = replica.logSize
        if logSize < Self.muchLog / 2 {
            reportedLogs.remove(context.name)
        } else if logSize > Self.muchLog, reportedLogs.insert(context.name).inserted {
            reporter.report(.replicaLogGrows(consumer: author, context: context.name, bytes: logSize))
        }
        guard merged.transactions > 0, let last = merge.toMerge.last?.token else { return }
        reporter.report(
            .merged(consumer: author, context: context.name, transactions: merged.transactions, last: last))
    }

    /// Lets replicas show all that they have taken in, and follow the store's schema, once their
    /// consumer is level.
    func settle(cursor: Int64) async throws {
        if retryDelay != nil { try await tend(cursor: cursor) }
        for replica in replicas {
            let name = replica.context.name
            guard unsettled.contains(name), positions[name] != nil else { continue }
            try attempting(name, .written) {
                let position = try replica.prepare(snapshots).number
                let levelled = try snapshots.read { store in
                    try HistoryHeader(store).newest == position ? try replica.level(from: store) : nil
                }
                guard let levelled else {
                    overtaken.insert(name)
                    return .opened
                }
                report(levelled.leftOut, of: replica.context)
                unsettled.remove(name)
                overtaken.remove(name)
                return .written
            }
        }
    }
}
