/// A consumer: an author of a store that receives changes, with its contexts.
package struct Consumer: Sendable {
    /// The store's configured name.
    package let store: String
    package let author: String
    package let rule: DeliveryRule
    package let contexts: [ReplicaContext]
    package let feeds: [FeedContext]
    /// Contexts of the program in which a tracker runs.
    let programContexts: [any HistoryContext]

    /// Whether the default merge has something to merge into.
    var hasContexts: Bool { !contexts.isEmpty || !programContexts.isEmpty }

    package init(
        store: String, author: String, rule: DeliveryRule, contexts: [ReplicaContext] = [],
        feeds: [FeedContext] = []
    ) {
        self.init(
            store: store, author: author, rule: rule, contexts: contexts, feeds: feeds, programContexts: [])
    }

    init(
        store: String, author: String, rule: DeliveryRule, contexts: [ReplicaContext], feeds: [FeedContext],
        programContexts: [any HistoryContext]
    ) {
        self.store = store
        self.author = author
        self.rule = rule
        self.contexts = contexts
        self.feeds = feeds
        self.programContexts = programContexts
    }
}
