/// The configuration of a context that a plugin keeps.
package struct PluginContext: Sendable {
    /// Unique among the consumer's contexts.
    package let name: String
    /// The plugin's name.
    package let plugin: String
    /// The entities whose changes it merges; nil for every tracked entity.
    package let entities: Set<BinaryText>?
    let endpoint: any ContextEndpoint

    package init(name: String, plugin: String, entities: Set<BinaryText>?, endpoint: any ContextEndpoint) {
        self.name = name
        self.plugin = plugin
        self.entities = entities
        self.endpoint = endpoint
    }

    var description: ContextDescription { ContextDescription(name: name, kind: "plugin", path: nil) }

    /// The part of a transaction that it merges. The changes of a large one are read later.
    func wanted(_ transaction: HistoryTransaction) -> HistoryTransaction? {
        guard let entities else { return transaction }
        guard transaction.concerns(entities) else { return nil }
        if transaction.outline != nil { return transaction }
        return transaction.with(wanted(transaction.changes))
    }

    func wanted(_ changes: [HistoryChange]) -> [HistoryChange] {
        guard let entities else { return changes }
        return changes.filter { entities.contains($0.entity.name) }
    }
}
