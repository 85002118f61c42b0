/// A consumer: an author of a store that receives changes, with its contexts.
package struct Consumer: Sendable {
    /// The store's configured name.
    package let store: String
    package let author: String
    package let rule: DeliveryRule
    package let contexts: [ReplicaContext]
    package let feeds: [FeedContext]

    package init(
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
