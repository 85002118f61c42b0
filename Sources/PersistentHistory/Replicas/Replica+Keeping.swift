import GRDB

/// A replica as a consumer's context: it always shows the store's state at one moment.
extension Replica: MergeContext {
    /// A write-ahead log larger than this is reported.
    private static let muchLog: Int64 = 256 << 20

    var name: String { context.name }
    var stateKey: String? { path }
    var copiesRows: Bool { true }
    var fingerprint: String? { position.fingerprint }

    var shownPosition: Int64? { position.number }

    func open(isKnown: Bool) throws -> HistoryToken? {
        if let newPath = try openFile(isKnown: isKnown) {
            reporter.report(.replicaMovedAside(consumer: consumer, context: name, to: newPath))
        }
        isOutdated = true
        if !isLevel { isOvertaken = true }
        return token
    }

    func refill(_ expiry: Expiry?) throws -> HistoryToken? {
        report(try fill())
        return token
    }

    func stage(_ wanted: [HistoryTransaction], of batch: HistoryBatch, from store: Database) throws {
        // A large batch is cheaper to settle later, when hooks can no longer affect it. But with busy
        // writers, there may never be a moment for that.
        let isMuch = wanted.lazy.map(\.changes.count).reduce(0, +) > HistoryReader.batchSize
        guard isLevel && !isMuch || isOvertaken else { return }
        try stage(wanted, of: batch.transactions, through: batch.end, from: store)
    }

    func merge(
        _ transactions: [HistoryTransaction], through token: HistoryToken, _ fingerprint: String?
    ) throws -> Int {
        let merged = try merge(transactions, through: token.number, fingerprint, reading: history)
        if !merged.isShown { isOutdated = true }
        report(merged.leftOut)
        reportLog()
        return merged.transactions
    }

    func schemaChanged() { isOutdated = true }

    func bringUpToDate() throws -> Bool {
        let refreshed: Merged? = try snapshots.read { store in
            let header = try HistoryHeader(store, fingerprintAt: position.taken)
            // The path may lead to another file by now.
            guard header.newest == position.taken, !header.isReplaced(fingerprint) else { return nil }
            return try refresh(from: store)
        }
        isOvertaken = refreshed == nil
        guard let refreshed else { return false }
        report(refreshed.leftOut)
        isOutdated = false
        return true
    }

    private func report(_ leftOut: [ReplicaContext.LeftOut]) {
        for part in leftOut {
            switch part.kind {
            case .table: reporter.report(.replicaTableLeftOut(consumer: consumer, context: name, part))
            case .index: reporter.report(.replicaIndexLeftOut(consumer: consumer, context: name, part))
            }
        }
    }

    private func reportLog() {
        let size = logSize
        if size < Self.muchLog / 2 {
            hasReportedLog = false
        } else if size > Self.muchLog, !hasReportedLog {
            hasReportedLog = true
            reporter.report(.replicaLogGrows(consumer: consumer, context: name, bytes: size))
        }
    }
}
