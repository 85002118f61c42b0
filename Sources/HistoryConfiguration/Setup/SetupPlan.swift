package import PersistentHistory

/// The files and commands that add a store and a hook to a daemon under systemd, in order.
///
/// It changes no existing file: the store gets a file of its own in `conf.d`, and the hook a manifest of its
/// own.
package struct SetupPlan: Sendable, Equatable {
    package struct Hook: Sendable, Equatable {
        /// The name of the plugin and of its hook.
        package var name: String
        /// The program as given; it is copied to a folder that the daemon sees.
        package var file: String
        package var entity: String?
        package var mode: PluginConfiguration.Mode

        package init(name: String, file: String, entity: String?, mode: PluginConfiguration.Mode) {
            (self.name, self.file, self.entity, self.mode) = (name, file, entity, mode)
        }
    }

    /// A store, as it is configured or is to be configured.
    package struct Store: Sendable, Equatable {
        package var name: String
        package var path: String
        /// The author for which the hook is called.
        package var consumer: String
        /// Whether it is configured already.
        package var isConfigured: Bool

        package init(name: String, path: String, consumer: String, isConfigured: Bool) {
            (self.name, self.path, self.consumer) = (name, path, consumer)
            self.isConfigured = isConfigured
        }
    }

    package var store: Store
    package var hook: Hook
    /// Nil for the main daemon.
    package var instance: String?
    /// Whether the main configuration exists.
    package var hasConfiguration: Bool
    package var deployment: DeploymentPlan

    package init(
        store: Store, hook: Hook, instance: String?, hasConfiguration: Bool, deployment: DeploymentPlan
    ) {
        (self.store, self.hook, self.instance) = (store, hook, instance)
        (self.hasConfiguration, self.deployment) = (hasConfiguration, deployment)
    }

    package static func unit(ofInstance instance: String?) -> String {
        "historyd\(instance.map { "@\($0)" } ?? "").service"
    }

    package static func configuration(ofInstance instance: String?) -> String {
        "\(folder(ofInstance: instance))/historyd.json"
    }

    private static func folder(ofInstance instance: String?) -> String {
        "/etc/historyd\(instance.map { "/\($0)" } ?? "")"
    }

    private var folder: String { Self.folder(ofInstance: instance) }
    package var socket: String { "/run/historyd\(instance.map { "-\($0)" } ?? "")/control.sock" }
    /// Outside of all home folders and packages.
    private var program: String { "/usr/local/libexec/historyd/\(hook.name)" }
    private var manifest: String { "\(folder)/hooks.d/\(hook.name).json" }
    private var dropIn: String { "\(folder)/conf.d/\(hook.name).json" }

    /// The files that it creates. None of them may exist.
    package var newFiles: [String] { [manifest, dropIn, program] }

    /// A shell script for root.
    package var script: String {
        var script = """
            #!/bin/sh
            # Lets historyd serve \(store.path.printable) and call \(hook.file.printable). As root.
            set -e

            """
        func add(_ title: String, _ commands: [String]) {
            if commands.isEmpty { return }
            script += "\n# \(title)\n" + commands.map { $0 + "\n" }.joined()
        }
        add("The daemon's user may use the store.", deployment.rights)
        add("The unit's sandbox shows it, and lets it be written.", deployment.dropIns)
        add(
            "The hook, where the daemon sees it.",
            ["install -D -m 755 \(ShellText.quote(hook.file)) \(ShellText.quote(program))"])
        add("The hook's manifest, and the configuration.", files)
        let unit = ShellText.quote(Self.unit(ofInstance: instance))
        add(
            "The service.",
            ["systemctl daemon-reload", "systemctl enable \(unit)", "systemctl restart \(unit)"])
        add(
            "What is wrong, if anything is.",
            ["historyctl doctor \(ShellText.quote(store.name)) --socket \(ShellText.quote(socket))"])
        return script
    }

    private var files: [String] {
        var files = [Self.write(manifest, manifestText), Self.write(dropIn, dropInText)]
        if !hasConfiguration {
            files.append(Self.write("\(folder)/historyd.json", #"{ "version": 1 }"#))
        }
        return files
    }

    private static func write(_ path: String, _ text: String) -> String {
        "install -D -m 644 /dev/stdin \(ShellText.quote(path)) <<'JSON'\n\(text)\nJSON"
    }

    private var manifestText: String {
        let entity = hook.entity.map { ", \"entity\": \(Self.json($0))" } ?? ""
        return """
            { "version": 1,
              "plugins": [{ "name": \(Self.json(hook.name)), "command": [\(Self.json(program))], "mode": "\(hook.mode.rawValue)",
                "hooks": [{ "name": \(Self.json(hook.name)), "kind": "observer"\(entity),
                  "store": \(Self.json(store.name)), "consumer": \(Self.json(store.consumer)) }] }] }
            """
    }

    private var dropInText: String {
        let entities = hook.entity.map { "{ \(Self.json($0)): {} }" } ?? "\"*\""
        let stores =
            store.isConfigured
            ? ""
            : """

              "stores": [{ "name": \(Self.json(store.name)), "path": \(Self.json(store.path)), "entities": \(entities),
                "authors": [{ "name": \(Self.json(store.consumer)) }] }],
            """
        return "{ \"version\": 1,\(stores)\n  \"plugins\": [\(Self.json(manifest))] }"
    }

    private static func json(_ text: String) -> String {
        var bytes = JSONBytes()
        bytes.string(text)
        return String(decoding: bytes.bytes.array, as: UTF8.self)
    }
}
