import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// All plugins and hooks, in order: those of the manifests, then those added to the running daemon, without
/// those that were removed.
struct HookCatalog: Sendable {
    struct Entry: Sendable, Equatable {
        var plugin: PluginConfiguration
        var origin: HookReport.Origin
    }

    private(set) var entries: [Entry]
    /// Plugins that are needed even without a hook.
    private let keepingContexts: Set<String>
    /// Operations for which hooks of manifests are no longer called, until the manifests are read again. A
    /// merge hook has all of them.
    private var withheld: [UUID: Set<ChangeOperation>] = [:]

    init(
        manifests: [PluginConfiguration], added: [Entry] = [], keepingContexts: Set<String> = []
    ) {
        self.keepingContexts = keepingContexts
        entries = manifests.map { Entry(plugin: $0, origin: .manifest) } + added
    }

    /// - Parameter persisted: The hooks that were added to an earlier daemon and kept.
    init(_ loaded: LoadedConfiguration, persisted: [PluginConfiguration]) {
        self.init(
            manifests: loaded.plugins, added: persisted.map { Entry(plugin: $0, origin: .persisted) },
            keepingContexts: loaded.configuration.contextPlugins)
    }

    /// The plugins that were added to the running daemon.
    var added: [Entry] { entries.filter { $0.origin != .manifest } }

    var plugins: [PluginConfiguration] { entries.map(\.plugin) }

    /// Plugins that have a hook to serve, or a context to update.
    var needed: [PluginConfiguration] {
        plugins.filter { plugin in
            keepingContexts.contains(plugin.name) || plugin.hooks.contains { present($0) != nil }
        }
    }

    /// The names of the plugins that a store may be calling.
    func plugins(calledBy store: StoreConfiguration) -> Set<String> {
        let called = plugins.filter { plugin in
            plugin.hooks.contains { hook in hook.store.map { NamePattern.matches($0, store.name) } ?? true }
        }
        let contexts = store.authors.flatMap(\.contexts).compactMap { context in
            if case .plugin(let name) = context.kind { name } else { nil }
        }
        return Set(called.map(\.name) + contexts)
    }

    /// Observers, then the merge pipeline, each in call order.
    var hooks: [HookConfiguration] {
        plugins.flatMap(\.hooks).filter { $0.kind == .observer }.compactMap(present)
            // The order covers all hooks: what stood before a removed hook keeps its position.
            + MergeOrder.pipeline(of: plugins).compactMap(present)
    }

    /// The hook without its removed operations; nil if none is left.
    private func present(_ hook: HookConfiguration) -> HookConfiguration? {
        guard let withheld = withheld[hook.id] else { return hook }
        var hook = hook
        hook.operations.subtract(withheld)
        return hook.operations.isEmpty ? nil : hook
    }

    func origin(of hook: HookConfiguration) -> HookReport.Origin {
        entries.first { $0.plugin.hooks.contains { $0.id == hook.id } }?.origin ?? .manifest
    }

    mutating func add(_ plugins: [PluginConfiguration], origin: HookReport.Origin) {
        entries += plugins.map { Entry(plugin: $0, origin: origin) }
    }

    /// Removes hooks. A hook that is called for several operations loses only the selected one.
    ///
    /// - Returns: The removed hooks, in order.
    mutating func remove(_ selection: HookSelection) -> [HookConfiguration] {
        let affected = hooks.filter(selection.includes)
        for hook in affected { withheld[hook.id, default: []].formUnion(selection.operations(of: hook)) }
        let gone = Set(affected.filter { present($0) == nil }.map(\.fullName))
        entries = entries.compactMap { entry in
            guard entry.origin != .manifest else { return entry }
            var entry = entry
            entry.plugin.hooks = entry.plugin.hooks.compactMap(present).map { hook in
                guard let before = hook.before, gone.contains(before) else { return hook }
                // Kept hooks must be readable without the removed ones.
                var hook = hook
                hook.before = nil
                return hook
            }
            return entry.plugin.hooks.isEmpty ? nil : entry
        }
        // Added hooks do not come back by themselves, and may be added again.
        let manifests = Set(entries.filter { $0.origin == .manifest }.flatMap { $0.plugin.hooks.map(\.id) })
        withheld = withheld.filter { manifests.contains($0.key) }
        return affected
    }
}

extension HookSelection {
    func includes(_ hook: HookConfiguration) -> Bool {
        if let kind, kind != hook.kind.rawValue { return false }
        switch which {
        case .id(let id): return hook.id == id
        case .pair(let entity, let operation):
            return hook.kind == .observer && (hook.entity ?? "*") == entity
                && hook.operations.contains { $0.rawValue == operation }
        case .all: return true
        }
    }

    /// The operations of a hook that this selection includes.
    func operations(of hook: HookConfiguration) -> Set<ChangeOperation> {
        guard case .pair(_, let operation) = which else { return hook.operations }
        return hook.operations.filter { $0.rawValue == operation }
    }
}
