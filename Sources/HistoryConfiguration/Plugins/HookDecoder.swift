import PersistentHistory

/// The names to which a hook refers, with their positions.
struct HookReferences {
    let hook: HookConfiguration
    let store: DocumentNode?
    let consumer: DocumentNode?
    let before: DocumentNode?
    let condition: DocumentNode?
    /// Whether the kind could be decoded.
    let kindIsKnown: Bool
}

/// Decodes the hooks of one plugin.
struct HookDecoder {
    let plugin: String
    private(set) var references: [HookReferences] = []
    private(set) var knowsAllNames = true

    private var names = Claims()

    init(plugin: String) {
        self.plugin = plugin
    }

    private static let keys = [
        "name", "kind", "entity", "operation", "store", "consumer", "before", "calls", "properties", "where",
        "values", "maximumValueBytes",
    ]

    mutating func decode(_ node: DocumentNode) -> HookConfiguration? {
        guard let fields = node.fields(Self.keys) else {
            knowsAllNames = false
            return nil
        }
        let nameNode = fields.required("name", PluginName.expected)
        let name = nameNode.flatMap(PluginName.read)
        if let name, let nameNode { _ = names.claim(name, at: nameNode, as: "hook") }
        if name == nil { knowsAllNames = false }

        let kinds = [Hook.Kind.observer, .merge]
        let kind = fields.required("kind", kinds.map(\.rawValue).alternatives)?.choice(kinds)
        if kind == .merge {
            fields.refuse("entity", "only an observer has it; a merge hook is called for the whole batch")
            fields.refuse("operation", "only an observer has it; a merge hook is called for the whole batch")
            fields.refuse("calls", "only an observer has it; a merge hook is called for the whole batch")
            fields.refuse("properties", "only an observer has it; a merge hook is called for the whole batch")
            fields.refuse("where", "only an observer has it; a merge hook is called for the whole batch")
        }
        if kind == .observer {
            fields.refuse(
                "before", "only a merge hook has it; observers are called in the order of the manifests")
        }
        let entity = fields["entity"]?.name(expected: "an entity's name, or \"*\" for all")
        let operations = fields["operation"].flatMap(Self.operations)
        let isOfOneEntity = fields["entity"] != nil && entity != "*"
        if let operations, !operations.contains(.update) {
            fields.refuse(
                "properties", "only an update changes columns, and the hook is not called for updates")
        }
        let filter = fields.filter(isOfOneEntity: isOfOneEntity || kind == .merge, "\"entity\"")
        let hook = HookConfiguration(
            fullName: "\(plugin)/\(name ?? "")", kind: kind ?? .observer,
            entity: entity == "*" ? nil : entity,
            operations: operations ?? Set(ChangeOperation.allCases),
            store: fields["store"]?.name(),
            consumer: fields["consumer"]?.name(),
            before: fields["before"]?.name(expected: "a merge hook's full name, plugin/hook"),
            calls: fields["calls"]?.choice(ObserverCalls.allCases) ?? .transaction,
            properties: filter.properties, condition: filter.condition,
            maximumValueBytes: fields.maximumValueBytes())
        guard name != nil else { return nil }
        references.append(
            HookReferences(
                hook: hook, store: fields["store"], consumer: fields["consumer"],
                before: kind == .observer ? nil : fields["before"], condition: fields["where"],
                kindIsKnown: kind != nil))
        return hook
    }

    private static func operations(_ node: DocumentNode) -> Set<ChangeOperation>? {
        guard case .array = node.value.content, let nodes = node.list() else {
            return node.choice(ChangeOperation.allCases).map { [$0] }
        }
        if nodes.isEmpty {
            let names = ChangeOperation.allCases.map(\.rawValue).alternatives
            node.report("expected one or more of \(names), found an empty list")
        }
        return Set(nodes.compactMap { $0.choice(ChangeOperation.allCases) })
    }
}
