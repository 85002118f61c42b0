import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import HistoryPlugins
import Logging
import PersistentHistory

/// Lists, restarts and tests plugins.
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

    /// Makes a call to one hook: for a past transaction, or for a made-up one.
    func testPlugin(
        _ name: String, _ hookName: String?, _ tokenText: String?, dryRun: Bool, _ peer: Peer
    ) async throws -> PluginTest {
        let plugin = try await plugin(name)
        let hook = try Self.hook(hookName, of: plugin)
        let token = try tokenText.map { text throws(ControlError) in try Self.token(text) }
        let stores = await engine.stores
        let store = stores.first { store in
            (token == nil || token?.store == store.control.storeID)
                && (hook.store.map { NamePattern.matches($0, store.name) } ?? true)
        }
        if let token, store == nil {
            throw ControlError(
                .tokenForeign,
                "The token \(token) is of no open store that the hook \"\(hook.fullName)\" is for.")
        }
        let consumer = store?.served.consumers.first {
            hook.consumer?.hasSameBytes(as: $0.author) ?? true
        }
        let sample = SampleCall(hook, of: plugin)
        let trial = TrialCall(
            sample.hook, store: store?.name ?? "sample",
            consumer: consumer?.author ?? hook.consumer ?? "sample",
            delivery: UUID.random().uuidString.lowercased(), contexts: consumer?.descriptions ?? [])
        guard let parameters = try await parameters(of: trial, token, in: store) else {
            throw ControlError(
                .badRequest,
                "Nothing of the transaction \(tokenText ?? "") is for the hook \"\(hook.fullName)\".")
        }
        let call = String(decoding: parameters, as: UTF8.self)
        if dryRun { return PluginTest(hook: hook.fullName, call: call) }
        logger.notice(
            "\(peer) makes a sample call to hook \"\(hook.fullName)\".", metadata: ["hook": "\(hook.fullName)"])
        return await sample.make(trial.header, call)
    }

    /// The parameters of the call; nil if there are none. A store that is not open has no entities to make up a
    /// change of.
    private func parameters(of trial: TrialCall, _ token: HistoryToken?, in store: RunningStore?) async throws
        -> [UInt8]?
    {
        guard let store else { return trial.invented() }
        do {
            return try await store.control.parameters(of: trial, token: token)
        } catch let error as HistoryError where error.code == .storeNotOpen && token == nil {
            return trial.invented()
        }
    }

    private static func hook(_ wanted: String?, of plugin: PluginConfiguration) throws(ControlError)
        -> HookConfiguration
    {
        let name = plugin.name
        if plugin.hooks.isEmpty {
            throw ControlError(
                .unknownHook,
                "Plugin \"\(name)\" has no hooks: it keeps contexts, which a sample call would change.")
        }
        if let hook = plugin.hooks.first(where: { wanted == nil || $0.fullName == "\(name)/\(wanted ?? "")" }) {
            return hook
        }
        let known = plugin.hooks.map { String($0.fullName.dropFirst(name.count + 1)) }
        throw ControlError(
            .unknownHook, "Plugin \"\(name)\" has no hook \"\(wanted ?? "")\". Hooks: \(known.quotedList).")
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
    /// Restarts a coprocess when its calls in flight have been answered.
    ///
    /// - Returns: Why it does not run; nil if it runs.
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
