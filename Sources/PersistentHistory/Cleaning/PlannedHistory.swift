import GRDB

/// What shows that a history is still the one that a cleanup was planned for, and not another store's or a backup's,
/// which no consumer has processed.
struct PlannedHistory: Sendable, Equatable {
    let store: StoreID
    /// A checkpoint that the plan relies on, if it relies on one.
    let checkpoint: Checkpoint?

    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    func check(_ db: Database) throws {
        let header = try HistoryHeader(db, fingerprintAt: checkpoint?.position ?? -1)
        let token = HistoryToken(store: store, number: checkpoint?.position ?? 0)
        guard header.storeID == store else { throw HistoryError.foreign(token, to: header.storeID) }
        guard !header.isReplaced(checkpoint?.fingerprint), token.number <= max(header.newest, header.floor)
        else {
            throw HistoryError.ahead(token, newest: HistoryToken(store: store, number: header.newest))
        }
    }
}
