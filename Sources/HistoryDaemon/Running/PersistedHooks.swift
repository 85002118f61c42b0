import FoundationEssentials
package import HistoryConfiguration
import Logging
import PersistentHistory

/// Manifests of hooks that were added to a running daemon and are kept over a restart: one file per plugin in
/// the state folder, in the order in which they were added.
package struct PersistedHooks: Sendable {
    let folder: String

    init(stateFolder: String) { folder = "\(stateFolder)/hooks.d" }

    /// The files, in order.
    func files() throws -> [String] {
        guard FileManager.default.fileExists(atPath: folder) else { return [] }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            .filter { $0.hasSuffix(".json") && !$0.hasPrefix(".") }
        return names.sorted(by: Self.precedes).map { "\(folder)/\($0)" }
    }

    private static func precedes(_ one: String, _ other: String) -> Bool {
        let (number, otherNumber) = (Self.number(one), Self.number(other))
        return number == otherNumber ? one.utf8.lexicographicallyPrecedes(other.utf8) : number < otherNumber
    }

    /// The number at the start of a file's name: `0001-name.json`.
    private static func number(_ name: String) -> Int { Int(name.prefix { $0.isNumber }) ?? 0 }

    /// Moves files aside that are not JSON, because the daemon never writes such files. The other hooks are
    /// kept.
    ///
    /// - Throws: `HistoryError` where one cannot be moved.
    func moveAsideDamaged(_ logger: Logger) throws {
        for file in try files() {
            // A file that cannot be read is reported when it is loaded.
            guard let bytes = try? AtomicFile.read(file), let problem = PluginConfiguration.damage(of: bytes)
            else {
                continue
            }
            let newPath = try DamagedFile.moveAside(file, at: .now)
            logger.report(
                .stateCorrupt,
                "The kept hooks in \"\(file)\" are damaged: \(problem). The file was moved to \"\(newPath)\", and its hooks are not called until they are added again."
            )
        }
    }

    /// Reads the kept hooks: each file is a manifest that joins those before it.
    ///
    /// - Parameters:
    ///   - configuration: The configuration that the hooks must fit.
    ///   - manifests: The configured plugins.
    ///   - unfit: Called with a file that does not fit the configuration any more, because that was edited
    ///     since.
    /// - Throws: `HistoryError` where a file cannot be read; what `unfit` throws.
    func load(
        for configuration: DaemonConfiguration, besides manifests: [PluginConfiguration],
        unfit: (_ file: String, ConfigurationErrors) throws -> Void
    ) throws -> [PluginConfiguration] {
        var plugins = manifests
        for file in try files() {
            let bytes: [UInt8]
            do throws(SystemError) {
                bytes = try AtomicFile.read(file) ?? []
            } catch {
                throw HistoryError.stateFile(
                    file, "The persisted hooks in \"\(file)\" cannot be read", error)
            }
            do throws(ConfigurationErrors) {
                plugins += try PluginConfiguration.read(
                    manifest: bytes, file: file, for: configuration, besides: plugins)
            } catch {
                try unfit(file, error)
            }
        }
        return Array(plugins.dropFirst(manifests.count))
    }

    /// Reads the kept hooks, and moves aside files that do not fit: an edited manifest must not keep stores
    /// from being served.
    func load(for loaded: LoadedConfiguration, _ logger: Logger) throws -> [PluginConfiguration] {
        try moveAsideDamaged(logger)
        return try load(for: loaded.configuration, besides: loaded.plugins) { file, errors in
            let newPath = try DamagedFile.moveAside(file, at: .now)
            logger.report(
                .persistedHooksUnfit,
                "The kept hooks in \"\(file)\" do not fit the configuration: \(Self.text(of: errors)). The file was moved to \"\(newPath)\", and its hooks are not called until they are added again."
            )
        }
    }

    /// The files that the next start would move aside, and why.
    package static func problems(of loaded: LoadedConfiguration, stateFolder: String) throws -> [String] {
        let hooks = PersistedHooks(stateFolder: stateFolder)
        var problems: [String] = []
        _ = try hooks.load(for: loaded.configuration, besides: loaded.plugins) { file, errors in
            problems.append("The kept hooks in \"\(file)\" would be moved aside: \(text(of: errors)).")
        }
        return problems
    }

    private static func text(of errors: ConfigurationErrors) -> String {
        errors.problems.map(\.description).joined(separator: "; ")
    }

    /// Brings the files up to date with the plugins to keep: removes, rewrites and adds.
    func keep(_ plugins: [PluginConfiguration]) throws {
        var known: [String: String] = [:]
        var last = 0
        for file in try files() {
            let name = file.split(separator: "/").last.map(String.init) ?? ""
            last = max(last, Self.number(name))
            // `0001-name.json`
            guard let dash = name.firstIndex(of: "-") else { continue }
            known[String(name[name.index(after: dash)...].dropLast(".json".count))] = file
        }
        for (name, file) in known where !plugins.contains(where: { $0.name == name }) {
            try FileManager.default.removeItem(atPath: file)
        }
        if plugins.isEmpty { return }
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        for plugin in plugins {
            let file: String
            if let there = known[plugin.name] {
                file = there
            } else {
                last += 1
                let number = String(last)
                let zeros = String(repeating: "0", count: max(0, 4 - number.count))
                file = "\(folder)/\(zeros)\(number)-\(plugin.name).json"
            }
            try AtomicFile.write(try Self.manifest(of: plugin, file), to: file)
        }
    }
}

extension PersistedHooks {
    /// Returns a plugin's manifest, after checking that it reads back as the same plugin.
    ///
    /// - Throws: `HistoryError`.
    private static func manifest(of plugin: PluginConfiguration, _ file: String) throws -> [UInt8] {
        let manifest = plugin.manifest
        guard try PluginConfiguration.read(manifest: manifest, file: file) == [plugin] else {
            throw HistoryError(
                .stateUnusable,
                "The hooks of plugin \"\(plugin.name)\" cannot be kept in \"\(file)\" as they are.",
                hint: "Put the manifest into a folder of the configuration's \"plugins\".")
        }
        return manifest
    }
}

extension PluginConfiguration {
    /// A manifest of this plugin alone, which reads the same from any folder.
    var manifest: [UInt8] {
        var json = JSONBytes()
        json.object { json in
            json.member("version", 1)
            json.name("plugins")
            json.array { write(to: &$0) }
        }
        json.endLine()
        return json.bytes.array
    }

    private func write(to json: inout JSONBytes) {
        json.object { json in
            json.member("name", name)
            json.member("command", command)
            json.member("mode", mode.rawValue)
            if !environment.isEmpty || !credentials.isEmpty {
                json.name("environment")
                json.object { json in
                    for (name, value) in environment.sorted(by: { $0.key < $1.key }) {
                        json.name(name)
                        json.string(value)
                    }
                    for (name, credential) in credentials.sorted(by: { $0.key < $1.key }) {
                        json.name(name)
                        json.object { $0.member("credential", credential) }
                    }
                }
            }
            json.member("timeout", timeout)
            if window != Self.largestWindow { json.member("window", Int64(window)) }
            if largeIntegers != .number { json.member("largeIntegers", largeIntegers.rawValue) }
            json.name("retry")
            json.object { json in
                json.member("attempts", Int64(policy.attempts))
                json.member("initialDelay", policy.initialDelay)
                json.member("maximumDelay", policy.maximumDelay)
            }
            json.member("onFailure", policy.afterLastAttempt.rawValue)
            json.name("hooks")
            json.array { json in for hook in hooks { hook.write(to: &json) } }
        }
    }
}

extension HookConfiguration {
    fileprivate func write(to json: inout JSONBytes) {
        json.object { json in
            json.member("name", fullName.split(separator: "/").last.map(String.init) ?? fullName)
            json.member("kind", kind.rawValue)
            if kind == .observer {
                json.member("entity", entity ?? "*")
                json.member("operation", ChangeOperation.allCases.filter(operations.contains).map(\.rawValue))
            }
            if let store { json.member("store", store) }
            if let consumer { json.member("consumer", consumer) }
            if let before { json.member("before", before) }
            if calls != .transaction { json.member("calls", calls.rawValue) }
            if let properties { json.member("properties", properties) }
            if let condition { json.member("where", condition) }
            if let maximumValueBytes {
                json.member("values", true)
                json.member("maximumValueBytes", Int64(maximumValueBytes))
            }
        }
    }
}
