/// Why a consumer or a feed does not continue at its position, and where it continues instead.
public struct Expiry: Sendable, Hashable, Codable {
    /// How history was lost.
    public enum Reason: String, Sendable, Hashable, Codable {
        /// The history after its position has been deleted.
        case expired
        /// Its position is ahead of the store, which was replaced or restored from a backup.
        case restored
        /// The consumer is new, and older history was deleted.
        case late
        /// The path now leads to another store. Only a feed, whose token names its store, is notified of
        /// this.
        case replaced
        /// Changes of some entities may have gone unrecorded: their tables were created again, or their
        /// triggers were missing for a time. Nothing else was lost.
        case recreated
    }

    /// How history was lost.
    public let reason: Reason
    /// The position that was lost; for a feed, the last token that was acknowledged or delivered. Nil for
    /// a new consumer.
    public let lost: HistoryToken?
    /// The position after which it continues. For a feed: the token to acknowledge after reading the store.
    public let after: HistoryToken
    /// For `recreated`: the entities that have to be read again. Empty means all.
    public let entities: [String]

    /// An expiry, for tests and previews.
    public init(reason: Reason, lost: HistoryToken?, after: HistoryToken, entities: [String] = []) {
        self.reason = reason
        self.lost = lost
        self.after = after
        self.entities = entities
    }

    /// The expiry of a transaction that has `recreated` entities; nil for any other.
    package init?(_ transaction: HistoryTransaction) {
        guard !transaction.recreated.isEmpty else { return nil }
        let token = transaction.token
        self.init(
            reason: .recreated, lost: HistoryToken(store: token.store, number: token.number - 1), after: token,
            entities: transaction.recreated)
    }
}
