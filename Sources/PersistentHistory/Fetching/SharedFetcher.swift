/// What was fetched for others already.
protocol SharedBatches {
    /// What was fetched after a position, if it is no more than is wanted.
    func known(after number: Int64, through last: Int64, values: WantedValues?) async -> HistoryBatch?
}

extension SharedFetcher: SharedBatches {}

/// Fetches on behalf of all consumers of a store: those that stand at the same position, as they do
/// when a commit comes in, share one read.
final class SharedFetcher {
    private let source: any HistorySource
    private var newest: Int64
    /// What tells the newest change from another of its number: see `HistoryBatch.fingerprint`.
    private var fingerprint: String?
    /// At the last look.
    private(set) var schemaVersion: Int64
    private var shared: (after: Int64, batch: HistoryBatch)?
    /// Of which objects anybody wants the rows: they are read once for all.
    private var wanted: WantedValues?

    /// Where the first look begins: everything up to there has been seen.
    struct Start: Sendable {
        let end: (number: Int64, fingerprint: String?)
        let schemaVersion: Int64

        /// - Throws: `HistoryError`.
        init(endOf source: any HistorySource) throws {
            end = try source.end()
            schemaVersion = try source.schemaVersion()
        }
    }

    init(_ source: any HistorySource, from start: Start) {
        self.source = source
        (newest, fingerprint) = start.end
        schemaVersion = start.schemaVersion
    }

    /// Looks whether something was committed since the last look, and fetches it.
    ///
    /// The next look begins at the end of the history, also if the batch ends before it: consumers that receive
    /// that batch read on by themselves, and what all have had may be deleted before that look.
    ///
    /// - Parameter values: Of which objects hooks and feeds want the rows.
    /// - Returns: Nil if there was nothing.
    /// - Throws: `HistoryError`; with `.tokenAhead` where what was seen before is no longer there: a
    ///   backup was copied into the open file.
    func look(values: WantedValues? = nil) throws -> HistoryLook? {
        wanted = values
        let look = try source.look(after: newest, fingerprint: fingerprint, values: values)
        schemaVersion = look.schemaVersion
        let isNews = look.end > newest
        shared = isNews && !look.batch.transactions.isEmpty ? (newest, look.batch) : nil
        guard isNews else { return nil }
        (newest, fingerprint) = (look.end, look.fingerprint)
        return look
    }

    /// What was fetched after a position already, if it is no more than is wanted.
    func known(after number: Int64, through last: Int64, values: WantedValues? = nil) -> HistoryBatch? {
        guard let shared, shared.after == number, shared.batch.end <= last, shared.batch.covers(values) else {
            return nil
        }
        return shared.batch
    }

    /// The transactions after a position.
    ///
    /// - Parameters:
    ///   - last: Nothing after this is wanted.
    ///   - values: Of which objects the rows are wanted, too.
    /// - Throws: `HistoryError`.
    func batch(after number: Int64, through last: Int64? = nil, values: WantedValues? = nil) throws
        -> HistoryBatch
    {
        if let last { return try source.outlinedBatch(after: number, through: last, values: values) }
        if let shared, shared.after == number, shared.batch.covers(values) { return shared.batch }
        let all = WantedValues.union([values, wanted].compactMap { $0 })
        let batch = try source.outlinedBatch(after: number, values: values == nil ? nil : all)
        if batch.end > number { shared = (number, batch) }
        return batch
    }
}
