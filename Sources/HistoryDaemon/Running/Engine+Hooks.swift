import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import PersistentHistory

extension Engine {
    private var persistedHooks: PersistedHooks { PersistedHooks(stateFolder: dependencies.stateFolder) }

    /// Adds the hooks of a manifest.
    ///
    /// - Throws: `ControlError`; no hook was added then.
    func addHooks(of manifest: [UInt8], before: UUID?, persist: Bool, file: String) async throws(ControlError)
        -> [HookConfiguration]
    {
        var plugins: [PluginConfiguration]
        do throws(ConfigurationErrors) {
            plugins = try await readManifest(manifest, file: file)
        } catch {
            throw Self.refused(error)
        }
        if let before { try place(&plugins, before: before) }
        var next = catalog
        next.add(plugins, origin: persist ? .persisted : .added)
        if persist {
            try checkLasting(plugins, file)
            try await save(next)
        }
        await putInForce(next)
        let names = Set(plugins.flatMap(\.hooks).map(\.id))
        return catalog.hooks.filter { names.contains($0.id) }
    }

    /// Reads a manifest off the engine: checking its stores may wait for their disks.
    private func readManifest(_ manifest: [UInt8], file: String) async throws(ConfigurationErrors)
        -> [PluginConfiguration]
    {
        let (configuration, others) = (loaded.configuration, catalog.plugins)
        let result = await onPool { () -> Result<[PluginConfiguration], ConfigurationErrors> in
            do throws(ConfigurationErrors) {
                return .success(
                    try PluginConfiguration.read(
                        manifest: manifest, file: file, for: configuration, besides: others,
                        checkingStores: true))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func place(_ plugins: inout [PluginConfiguration], before id: UUID) throws(ControlError) {
        guard let target = catalog.hooks.first(where: { $0.id == id }) else {
            throw ControlError(.unknownHook, "There is no hook \(id) to put other hooks before.")
        }
        guard target.kind == .merge else {
            throw ControlError(
                .badRequest,
                "\"\(target.fullName)\" is an observer: \"before\" is possible only for merge hooks.")
        }
        for plugin in plugins.indices {
            for hook in plugins[plugin].hooks.indices where plugins[plugin].hooks[hook].kind == .merge {
                if plugins[plugin].hooks[hook].before == nil {
                    plugins[plugin].hooks[hook].before = target.fullName
                }
            }
        }
    }

    /// Checks that the kept hooks are readable at the next start, when hooks that were added without being kept
    /// are gone.
    private func checkLasting(_ plugins: [PluginConfiguration], _ file: String) throws(ControlError) {
        var lasting = catalog.entries.filter { $0.origin != .added }.map(\.plugin)
        for plugin in plugins {
            do throws(ConfigurationErrors) {
                _ = try PluginConfiguration.read(
                    manifest: plugin.manifest, file: file, for: loaded.configuration,
                    besides: lasting + plugins.filter { $0.name != plugin.name && !lasting.contains($0) })
            } catch {
                throw Self.refused(error)
            }
            lasting.append(plugin)
        }
    }

    private static func refused(_ errors: ConfigurationErrors) -> ControlError {
        ControlError(
            .manifestRefused, "The manifest was refused; nothing was added.",
            problems: errors.problems.map(\.description))
    }

    /// Removes hooks.
    ///
    /// - Returns: The removed hooks.
    func removeHooks(_ selection: HookSelection) async throws(ControlError) -> [HookConfiguration] {
        var next = catalog
        let removed = next.remove(selection)
        guard !removed.isEmpty else {
            switch selection.which {
            case .all: return []
            case .id(let id): throw ControlError(.unknownHook, "There is no hook \(id).")
            case .pair(let entity, let operation):
                throw ControlError(.unknownHook, "There is no observer of \"\(entity)\" \(operation).")
            }
        }
        try await save(next)
        await putInForce(next)
        return removed
    }

    private func save(_ catalog: HookCatalog) async throws(ControlError) {
        let plugins = catalog.entries.filter { $0.origin == .persisted }.map(\.plugin)
        do {
            try await onPool { [persistedHooks] in try persistedHooks.keep(plugins) }
        } catch {
            throw ControlError(
                .failed,
                "The persisted hooks cannot be written to \"\(persistedHooks.folder)\": \(error). Nothing was changed."
            )
        }
    }

    private func putInForce(_ next: HookCatalog) async {
        let difference = await apply(loaded, next)
        await waitBriefly(difference.plugins.begun + difference.plugins.changed)
        dependencies.notifier.notify(.status(dependencies.status.line))
    }
}
