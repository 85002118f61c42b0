/// Who is served: an author that takes part in a store, with its contexts.
public struct Consumer: Sendable {
    /// The store's configured name.
    public let store: String
    public let author: String
    public let rule: DeliveryRule
    public let contexts: [ReplicaContext]
    public let feeds: [FeedContext]

    public init(
        store: String, author: String, rule: DeliveryRule, contexts: [ReplicaContext] = [],
        feeds: [FeedContext] = []
    ) {
        self.store = store
        self.author = author
        self.rule = rule
        self.contexts = contexts
        self.feeds = feeds
    }
}
