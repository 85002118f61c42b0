/// A consumer: an author of a store that receives changes, with its contexts.
package struct Consumer: Sendable {
    /// The store's configured name.
    package let store: String
    package let author: String
    package let rule: DeliveryRule
    package var contexts: [ReplicaContext]
    package var feeds: [FeedContext]
    /// Contexts that plugins keep.
    package var pluginContexts: [PluginContext]
    /// Contexts of the program in which a tracker runs.
    let programContexts: [any HistoryContext]

    /// Whether the default merge has something to merge into.
    var hasContexts: Bool { !contexts.isEmpty || !programContexts.isEmpty || !pluginContexts.isEmpty }

    /// As a merge hook receives them.
    package var descriptions: [ContextDescription] {
        contexts.map(\.description) + pluginContexts.map(\.description) + feeds.map(\.description)
    }

    package init(
        store: String, author: String, rule: DeliveryRule, contexts: [ReplicaContext] = [],
        feeds: [FeedContext] = [], pluginContexts: [PluginContext] = [],
        programContexts: [any HistoryContext] = []
    ) {
        self.store = store
        self.author = author
        self.rule = rule
        self.contexts = contexts
        self.feeds = feeds
        self.pluginContexts = pluginContexts
        self.programContexts = programContexts
    }
}
