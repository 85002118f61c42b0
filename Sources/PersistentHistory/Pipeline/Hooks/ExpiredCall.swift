/// Notifies a hook once that its consumer has lost history: the plugin must rebuild from the present
/// store what it has made of the changes.
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

    /// A call from a dead letter, to repeat. A closure only learns that it is one.
    package init(header: HookCallHeader, kept: String) {
        self.header = header
        let nothing = HistoryToken(store: StoreID.none, number: 0)
        expiry = Expiry(reason: .expired, lost: nil, after: nothing)
        self.kept = Array(kept.utf8)
    }

    init(_ expiry: Expiry, hook: Hook, store: String, consumer: String, replay: Int64? = nil) {
        let lost = expiry.lost.map { "\($0)" } ?? "\(expiry.after.store):-"
        header = HookCallHeader(
            HookRoute(store: store, consumer: consumer, hook: hook.name, hookID: hook.id, replay: replay),
            delivery: "\(lost)>\(expiry.after.number)/\(consumer)/\(hook.name)")
        self.expiry = expiry
        kept = nil
    }
}

extension Expiry {
    /// Whether an observer may have missed something because of the loss.
    func concerns(_ hook: Hook) -> Bool {
        entities.isEmpty || hook.entity.map(entities.contains) ?? true
    }
}
