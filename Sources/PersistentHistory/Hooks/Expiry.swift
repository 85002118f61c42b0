/// Why a consumer or a feed does not continue at its position, and where it continues instead.
public struct Expiry: Sendable, Hashable, Codable {
    /// How history was lost.
    public enum Reason: String, Sendable, Hashable, Codable {
        /// The history after its position has been deleted.
        case expired
        /// Its position is ahead of the store, which was replaced or restored from a backup.
        case restored
        /// The consumer is new, and history was deleted before.
        case late
        /// The path now has another store: only a feed is told so, whose token names its store.
        case replaced
        /// Changes of some entities may have gone unrecorded: their tables were made again, or their triggers were
        /// missing for a time. Nothing else was lost.
        case recreated
    }

    /// How history was lost.
    public let reason: Reason
    /// The position that was lost: of a feed, the last token that was acknowledged or delivered. Nil for a new consumer.
    public let lost: HistoryToken?
    /// The position after which it continues. For a feed: the token to acknowledge after reading the store.
    public let after: HistoryToken
    /// For `recreated`: what has to be read again. Empty means everything.
    public let entities: [String]

    /// An expiry, for tests and previews.
    public init(reason: Reason, lost: HistoryToken?, after: HistoryToken, entities: [String] = []) {
        self.reason = reason
        self.lost = lost
        self.after = after
        self.entities = entities
    }

    /// Whether an observer may have missed something by it.
    func concerns(_ hook: Hook) -> Bool {
        entities.isEmpty || hook.entity.map(entities.contains) ?? true
    }

    /// What a transaction tells that has `recreated` entities; nil for any other.
    init?(_ transaction: HistoryTransaction) {
        guard !transaction.recreated.isEmpty else { return nil }
        let token = transaction.token
        self.init(
            reason: .recreated, lost: HistoryToken(store: token.store, number: token.number - 1), after: token,
            entities: transaction.recreated)
    }
}

/// Notifies a hook, once, that its consumer has lost history: what the plugin has made of it so far
/// has to be created again from the store as it is.
package struct ExpiredCall: Sendable {
    package let header: HookCallHeader
    package let expiry: Expiry
    /// As for an observer's call.
    let kept: [UInt8]?

    package init(header: HookCallHeader, expiry: Expiry) {
        self.header = header
        self.expiry = expiry
        kept = nil
    }

    /// A call that was kept as a dead letter, to be made again. A closure gets no more of it than that it is one.
    package init(header: HookCallHeader, kept: String) {
        self.header = header
        let nothing = HistoryToken(store: StoreID.none, number: 0)
        expiry = Expiry(reason: .expired, lost: nil, after: nothing)
        self.kept = Array(kept.utf8)
    }

    init(_ expiry: Expiry, hook: Hook, store: String, consumer: String) {
        let lost = expiry.lost.map { "\($0)" } ?? "\(expiry.after.store):-"
        header = HookCallHeader(
            store: store, consumer: consumer, hook: hook.name, hookID: hook.id,
            delivery: "\(lost)>\(expiry.after.number)/\(consumer)/\(hook.name)")
        self.expiry = expiry
        kept = nil
    }
}
