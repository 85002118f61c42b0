/// Fetches on behalf of all consumers of a store: those that stand at the same position, as they do
/// when a commit comes in, share one read, and their feeds share it, too.
final class SharedFetcher: Sendable {
    private struct State {
        /// What has been seen: the newest change, and what tells it from another of its number (see
        /// `HistoryBatch.fingerprint`).
        var end: (number: Int64, fingerprint: String?)
        var schemaVersion: Int64
        var shared: (after: Int64, batch: HistoryBatch)?
        /// Of which objects anybody wants the rows: they are read once for all.
        var wanted: WantedValues?
    }

    private let source: any HistorySource
    private let state: Locked<State>

    /// The first look begins at the end of the history.
    init(_ source: any HistorySource) throws {
        self.source = source
        state = Locked(State(end: try source.end(), schemaVersion: try source.schemaVersion()))
    }

    /// Everything up to here has been seen.
    var end: (number: Int64, fingerprint: String?) { state.withLock { $0.end } }
    /// At the last look.
    var schemaVersion: Int64 { state.withLock { $0.schemaVersion } }

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
        let end = state.withLock { state in
            state.wanted = values
            return state.end
        }
        let look = try source.look(after: end.number, fingerprint: end.fingerprint, values: values)
        let isNews = look.end > end.number
        state.withLock { state in
            state.schemaVersion = look.schemaVersion
            state.shared = isNews && !look.batch.transactions.isEmpty ? (end.number, look.batch) : nil
            if isNews { state.end = (look.end, look.fingerprint) }
        }
        return isNews ? look : nil
    }

    /// What was fetched after a position already, if it is no more than is wanted.
    func known(after number: Int64, through last: Int64 = .max, values: WantedValues? = nil) -> HistoryBatch? {
        guard let shared = state.withLock(\.shared), shared.after == number, shared.batch.end <= last,
            shared.batch.covers(values)
        else { return nil }
        return shared.batch
    }

    /// The transactions after a position.
    ///
    /// - Parameters:
    ///   - last: Nothing after this is wanted.
    ///   - values: Of which objects the rows are wanted, too.
    func batch(after number: Int64, through last: Int64? = nil, values: WantedValues? = nil) throws
        -> HistoryBatch
    {
        if let last { return try source.outlinedBatch(after: number, through: last, values: values) }
        if let known = known(after: number, values: values) { return known }
        let all = WantedValues.union([values, state.withLock(\.wanted)].compactMap { $0 })
        let batch = try source.outlinedBatch(after: number, values: values == nil ? nil : all)
        if batch.end > number { state.withLock { $0.shared = (number, batch) } }
        return batch
    }
}
