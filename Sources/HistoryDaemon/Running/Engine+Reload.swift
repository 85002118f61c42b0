import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

extension Engine {
    /// Reads the configuration again and applies it, all or nothing.
    ///
    /// The service manager is notified of each attempt, and of readiness even after a refused one: a reload of
    /// `Type=notify-reload` would otherwise wait in vain (sd_notify(3)).
    ///
    /// - Throws: `ControlError` with `.reloadRefused` and all that is wrong.
    func reload() async throws(ControlError) -> ReloadReport {
        let (logger, notifier) = (dependencies.logger, dependencies.notifier)
        notifier.notify(.reloading)
        do {
            let difference = try await takeConfiguration()
            await waitBriefly(difference.plugins.begun + difference.plugins.changed)
            await removeUnusedStates()
            let line = dependencies.status.replace { $0.refusal = nil }
            logger.report(.reloaded, "The configuration was read again and is in force.")
            notifier.notify(.ready, .status(line))
            logger.report(.ready, "\(line).")
            let waiting = stores.compactMap { store in
                dependencies.status.problem(of: store.name).map { "Store \"\(store.name)\" waits. \($0)" }
                    ?? (store.up.isSignaled ? nil : "Store \"\(store.name)\" is still being opened.")
            }
            return ReloadReport(
                stores: difference.stores, plugins: difference.plugins, hooks: catalog.hooks.count,
                warnings: waiting.isEmpty ? nil : waiting)
        } catch {
            let problems = (error as? ConfigurationErrors)?.problems.map(\.description) ?? ["\(error)"]
            for problem in problems { logger.report(.reloadRefused, "\(problem)") }
            let line = dependencies.status.replace { $0.refusal = problems.first }
            notifier.notify(.ready, .status(line))
            throw ControlError(
                .reloadRefused, "The configuration was refused; the old one stays in force.", problems: problems
            )
        }
    }

    /// Reading may wait for a disk, so it does not run on the engine, which serves all requests.
    private func takeConfiguration() async throws -> Difference {
        let new = try await onPool { [file = loaded.files.first ?? "", added = catalog.added] () async throws in
            let new = try LoadedConfiguration.load(file: file, checkingCommands: true)
            // The hooks added to the running daemon must fit the new configuration.
            var all = new.plugins
            for entry in added {
                _ = try PluginConfiguration.read(
                    manifest: entry.plugin.manifest, file: "(hooks added to the running daemon)",
                    for: new.configuration, besides: all)
                all.append(entry.plugin)
            }
            return new
        }
        let (level, before) = (new.configuration.logLevel, loaded.configuration.logLevel)
        let next = HookCatalog(
            manifests: new.plugins, added: catalog.added,
            keepingContexts: new.configuration.contextPlugins)
        let difference = await apply(new, next)
        if level != before { dependencies.level.level = level }
        LogLine.format = new.configuration.logFormat
        return difference
    }
}
