import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Plugins: shown, started again, tried.
extension ControlHandler {
    func pluginList() async -> PluginList {
        let catalog = await engine.catalog
        return PluginList(
            plugins: catalog.needed.map { plugin in
                let known = dependencies.status.plugin(plugin.name)
                let isKept = plugin.mode == .coprocess
                return PluginList.Plugin(
                    name: plugin.name, mode: plugin.mode.rawValue, command: plugin.command,
                    state: isKept ? known.problem == nil ? .running : .failing : nil,
                    failures: known.failures, problem: known.problem,
                    hooks: catalog.hooks.filter { $0.fullName.hasPrefix(plugin.name + "/") }.map(\.fullName))
            })
    }

    func restartPlugin(_ name: String, _ peer: Peer) async throws -> PluginRestart {
        let plugin = try await plugin(name)
        guard plugin.mode == .coprocess else {
            throw ControlError(
                .badRequest, "Plugin \"\(name)\" is started for each call, so it cannot be restarted.")
        }
        let problem = try await jobs.perform { [engine] in try await engine.restart(name) }
        logger.notice(
            "\(peer) restarted the plugin \"\(name)\".", metadata: ["plugin": "\(name)"])
        return PluginRestart(plugin: name, problem: problem)
    }

    /// Makes a sample call to one hook, in a process of its own: what the plugin's own process does meanwhile is not
    /// disturbed.
    func testPlugin(_ name: String, _ hookName: String?, _ peer: Peer) async throws -> PluginTest {
        let plugin = try await plugin(name)
        if plugin.hooks.isEmpty {
            throw ControlError(
                .unknownHook,
                "Plugin \"\(name)\" has no hooks: it keeps contexts, which a sample call would change.")
        }
        guard
            let hook = plugin.hooks.first(where: {
                hookName == nil || $0.fullName == "\(name)/\(hookName ?? "")"
            })
        else {
            let known = plugin.hooks.map { String($0.fullName.dropFirst(name.count + 1)) }
            throw ControlError(
                .unknownHook,
                "Plugin \"\(name)\" has no hook \"\(hookName ?? "")\". Hooks: \(known.quotedList).")
        }
        logger.notice(
            "\(peer) makes a sample call to hook \"\(hook.fullName)\".", metadata: ["hook": "\(hook.fullName)"])
        let stores = await engine.stores
        let store = stores.first { $0.name == hook.store } ?? stores.first
        return try await SampleCall(hook, of: plugin, store: store?.served).make()
    }

    private func plugin(_ name: String) async throws(ControlError) -> PluginConfiguration {
        let plugins = await engine.catalog.needed
        guard let plugin = plugins.first(where: { $0.name == name }) else {
            throw ControlError(
                .unknownPlugin, "There is no plugin \"\(name)\". Plugins: \(plugins.map(\.name).quotedList).")
        }
        return plugin
    }
}

extension Engine {
    /// Starts a coprocess again, when the calls in flight have been answered.
    ///
    /// - Returns: Why it does not run.
    func restart(_ name: String) async throws(ControlError) -> String? {
        forgetFiles(of: name)
        _ = await apply(loaded, catalog)
        do throws(HookFailure) {
            try await waitUntilStarted(name)
            return nil
        } catch {
            return error.message
        }
    }
}
