/// Why a consumer does not continue at its position, and where it continues instead.
public struct Expiry: Sendable, Hashable, Codable {
    /// How history was lost.
    public enum Reason: String, Sendable, Hashable, Codable {
        /// The history after its position has been deleted.
        case expired
        /// Its position is ahead of the store, which was replaced or restored from a backup.
        case restored
        /// The consumer is new, and history was deleted before.
        case late
    }

    /// How history was lost.
    public let reason: Reason
    /// The position that was lost; nil for a new consumer.
    public let lost: HistoryToken?
    /// The position after which the consumer continues.
    public let after: HistoryToken

    /// An expiry, for tests and previews.
    public init(reason: Reason, lost: HistoryToken?, after: HistoryToken) {
        self.reason = reason
        self.lost = lost
        self.after = after
    }
}

/// Notifies a hook, once, that its consumer has lost history: what the plugin has made of it so far
/// has to be created again from the store as it is.
package struct ExpiredCall: Sendable {
    package let header: HookCallHeader
    package let expiry: Expiry

    package init(header: HookCallHeader, expiry: Expiry) {
        self.header = header
        self.expiry = expiry
    }

    init(_ expiry: Expiry, hook: Hook, store: String, consumer: String) {
        let lost = expiry.lost.map { "\($0)" } ?? "\(expiry.after.store):-"
        header = HookCallHeader(
            store: store, consumer: consumer, hook: hook.name, hookID: hook.id,
            delivery: "\(lost)>\(expiry.after.number)/\(consumer)/\(hook.name)")
        self.expiry = expiry
    }
}
