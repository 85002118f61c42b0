import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// Which plugins and hooks there are, in their order: those of the manifests, then those that were
/// added to the running daemon, less those that were taken away.
struct HookCatalog: Sendable {
    struct Entry: Sendable, Equatable {
        var plugin: PluginConfiguration
        var origin: HookReport.Origin
    }

    private(set) var entries: [Entry]
    /// Plugins that are needed also without a hook.
    private let keepingContexts: Set<String>
    /// Operations for which hooks of manifests are not called any more (a merge hook has all of
    /// them): until the manifests are read again.
    private var withheld: [UUID: Set<ChangeOperation>] = [:]

    init(
        manifests: [PluginConfiguration], added: [Entry] = [], keepingContexts: Set<String> = []
    ) {
        self.keepingContexts = keepingContexts
        entries = manifests.map { Entry(plugin: $0, origin: .manifest) } + added
    }

    /// - Parameter persisted: What was added to an earlier daemon to be kept.
    init(_ loaded: LoadedConfiguration, persisted: [PluginConfiguration]) {
        self.init(
            manifests: loaded.plugins, added: persisted.map { Entry(plugin: $0, origin: .persisted) },
            keepingContexts: loaded.configuration.contextPlugins)
    }

    /// Those that were added to the running daemon.
    var added: [Entry] { entries.filter { $0.origin != .manifest } }

    var plugins: [PluginConfiguration] { entries.map(\.plugin) }

    /// Plugins that have a hook to serve, or a context to keep.
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

    /// Observers, then the merge pipeline, each in the order in which they are called.
    var hooks: [HookConfiguration] {
        plugins.flatMap(\.hooks).filter { $0.kind == .observer }.compactMap(present)
            // The order is that of all: what stood before a removed hook keeps its place.
            + MergeOrder.pipeline(of: plugins).compactMap(present)
    }

    /// What is left of a hook; nil if nothing is.
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

    /// Takes hooks away. One that is called for several operations loses the one that is meant.
    ///
    /// - Returns: Those that were there, in their order.
    mutating func remove(_ selection: HookSelection) -> [HookConfiguration] {
        let affected = hooks.filter(selection.includes)
        for hook in affected { withheld[hook.id, default: []].formUnion(selection.operations(of: hook)) }
        let gone = Set(affected.filter { present($0) == nil }.map(\.fullName))
        entries = entries.compactMap { entry in
            guard entry.origin != .manifest else { return entry }
            var entry = entry
            entry.plugin.hooks = entry.plugin.hooks.compactMap(present).map { hook in
                guard let before = hook.before, gone.contains(before) else { return hook }
                // What is kept must be readable without those that went.
                var hook = hook
                hook.before = nil
                return hook
            }
            return entry.plugin.hooks.isEmpty ? nil : entry
        }
        // Those that were added do not come back by themselves, and may be added again.
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

    /// What of a hook that it includes it means.
    func operations(of hook: HookConfiguration) -> Set<ChangeOperation> {
        guard case .pair(_, let operation) = which else { return hook.operations }
        return hook.operations.filter { $0.rawValue == operation }
    }
}
