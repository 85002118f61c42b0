/// Notifies a hook, once, that its consumer has lost history: what the plugin has made of it so far
/// has to be created again from the store as it is.
package struct ExpiredCall: Sendable {
    package let header: HookCallHeader
    package let expiry: Expiry

    package init(header: HookCallHeader, expiry: Expiry) {
        self.header = header
        self.expiry = expiry
    }

    init(_ expiry: Expiry, hook: Hook, store: String, consumer: String, replay: Int64? = nil) {
        let lost = expiry.lost.map { "\($0)" } ?? "\(expiry.after.store):-"
        header = HookCallHeader(
            HookRoute(store: store, consumer: consumer, hook: hook.name, hookID: hook.id, replay: replay),
            delivery: "\(lost)>\(expiry.after.number)/\(consumer)/\(hook.name)")
        self.expiry = expiry
    }
}

extension ExpiredCall {
    /// The same call in another replay, or as it was made first.
    func replayed(_ number: Int64?) -> ExpiredCall {
        ExpiredCall(header: header.replayed(number), expiry: expiry)
    }
}

extension Expiry {
    /// Whether an observer may have missed something by it.
    func concerns(_ hook: Hook) -> Bool {
        entities.isEmpty || hook.entity.map(entities.contains) ?? true
    }
}
