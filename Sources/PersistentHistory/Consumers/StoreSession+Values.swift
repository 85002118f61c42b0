/// Of which objects anybody wants the rows: they are read with the changes, once for all.
extension StoreSession {
    /// What hooks and the feeds want to which a program is connected.
    var wantedValues: WantedValues? {
        let version = hooks.version
        if wantedByHooks?.version != version {
            let wanted = opened.store.consumers.compactMap { consumer in
                hooks.hooks(store: consumer.store, consumer: consumer.author).wantedValues
            }
            wantedByHooks = (version, WantedValues.union(wanted))
        }
        guard hasFeedsWithValues else { return wantedByHooks?.wanted }
        return WantedValues.union([wantedByHooks?.wanted, wantedByFeeds].compactMap { $0 })
    }

    private var wantedByFeeds: WantedValues? {
        let clients = control.seats.clients
        let feeds = opened.store.consumers.flatMap { consumer in
            consumer.feeds.filter {
                clients[FeedID(consumer: consumer.author, context: $0.name)] != nil
            }
        }
        return WantedValues.union(feeds.compactMap(\.wantedValues))
    }
}
