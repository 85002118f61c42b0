import PersistentHistory

/// Decodes manifests one after the other, and notes what to check once all are known.
struct ManifestDecoder {
    private(set) var plugins: [PluginConfiguration] = []
    private(set) var references: [HookReferences] = []
    /// False once the name of a plugin or a hook could not be read: an unknown `before` may then refer to it.
    private(set) var knowsAllNames = true

    private let existing: Set<String>
    private let checksCommands: Bool
    private var pluginNames = Claims()

    /// - Parameter existing: The names of plugins that exist already.
    init(existing: Set<String> = [], checksCommands: Bool = false) {
        self.existing = existing
        self.checksCommands = checksCommands
    }

    /// Adds a manifest; nil for one that could not be read.
    mutating func add(_ root: DocumentNode?) {
        guard let root, let fields = root.document(["plugins"]) else {
            knowsAllNames = false
            return
        }
        guard let nodes = fields.required("plugins", "a list of plugins")?.list(expected: "a list of plugins")
        else {
            knowsAllNames = false
            return
        }
        for node in nodes {
            if let plugin = plugin(node) { plugins.append(plugin) }
        }
    }

    private static let keys = [
        "name", "command", "mode", "environment", "timeout", "window", "largeIntegers", "retry",
        "onFailure", "hooks",
    ]

    private mutating func plugin(_ node: DocumentNode) -> PluginConfiguration? {
        guard let fields = node.fields(Self.keys) else {
            knowsAllNames = false
            return nil
        }
        let nameNode = fields.required("name", PluginName.expected)
        let name = nameNode.flatMap(PluginName.read)
        if let name, let nameNode {
            if existing.contains(name) { nameNode.report("plugin \(name.quoted) already exists") }
            _ = pluginNames.claim(name, at: nameNode, as: "plugin")
        }
        if name == nil { knowsAllNames = false }
        let (environment, credentials) = fields["environment"].map(Self.environment) ?? ([:], [:])
        let plugin = PluginConfiguration(
            name: name ?? "",
            command: fields.required("command", Self.commandExpected).flatMap(command) ?? [],
            mode: fields["mode"]?.choice(PluginConfiguration.Mode.allCases) ?? .oneshot,
            environment: environment, credentials: credentials,
            timeout: fields["timeout"]?.duration() ?? PluginConfiguration.defaultTimeout,
            window: fields["window"]?.integer(in: 1...PluginConfiguration.largestWindow)
                ?? PluginConfiguration.largestWindow,
            largeIntegers: fields["largeIntegers"]?.choice(LargeIntegers.allCases) ?? .number,
            policy: Self.policy(fields),
            hooks: fields.required("hooks", "a list of hooks").map { hooks($0, plugin: name) } ?? [])
        return name == nil ? nil : plugin
    }

    private mutating func hooks(_ node: DocumentNode, plugin: String?) -> [HookConfiguration] {
        guard let nodes = node.list(expected: "a list of hooks") else {
            knowsAllNames = false
            return []
        }
        var decoder = HookDecoder(plugin: plugin ?? "")
        let hooks = nodes.compactMap { decoder.decode($0) }
        if !decoder.knowsAllNames { knowsAllNames = false }
        // Without the plugin's name, a hook has no full name.
        if plugin != nil { references += decoder.references }
        return hooks
    }

    // MARK: The parts of a plugin

    private static let commandExpected = "a list of a program's path and its arguments"

    private func command(_ node: DocumentNode) -> [String]? {
        guard let nodes = node.list(expected: Self.commandExpected) else { return nil }
        guard let first = nodes.first else {
            node.report("expected \(Self.commandExpected), found an empty list")
            return nil
        }
        let expected = "an absolute path, or a path with a slash, relative to the manifest's folder"
        let program = first.filePath(expected: expected)
        if program != nil, case .string(let text) = first.value.content, !text.utf8.contains(UInt8(ascii: "/"))
        {
            first.report(expected: expected)
        }
        let arguments = nodes.dropFirst().compactMap { node in
            node.string().flatMap { Self.noNull($0, node, "an argument") }
        }
        guard let program, arguments.count == nodes.count - 1 else { return nil }
        if checksCommands, let problem = CommandCheck.problem(of: program) { first.report(problem) }
        return [program] + arguments
    }

    /// - Returns: Variables with their values, and secret variables with their credentials' names.
    private static func environment(_ node: DocumentNode) -> ([String: String], [String: String]) {
        guard let members = node.members(expected: "an object of texts by name") else { return ([:], [:]) }
        var environment: [String: String] = [:]
        var credentials: [String: String] = [:]
        for member in members {
            if member.name.isEmpty || member.name.contains("=") || member.name.utf8.contains(0) {
                member.report("expected a variable's name, not empty and without \"=\"")
            }
            // A value may be a secret: messages do not repeat it.
            if case .object = member.node.value.content {
                let fields = member.node.fields(["credential"])
                credentials[member.name] = fields?.required("credential", CredentialName.expected).flatMap(
                    CredentialName.read)
                continue
            }
            guard case .string(let value) = member.node.value.content else {
                member.node.report(
                    "expected a text (a number in quotes, too) or an object such as {\"credential\": \"name\"}")
                continue
            }
            environment[member.name] = noNull(value, member.node, "a variable")
        }
        return (environment, credentials)
    }

    /// The system ends a string at the first NUL.
    private static func noNull(_ text: String, _ node: DocumentNode, _ what: String) -> String? {
        guard text.utf8.contains(0) else { return text }
        node.report("expected \(what) without NUL")
        return nil
    }

    private static func policy(_ fields: Fields) -> FailurePolicy {
        let standard = FailurePolicy()
        let retry = fields["retry"]?.fields(["attempts", "initialDelay", "maximumDelay"])
        let initial = retry?["initialDelay"]?.duration(upTo: .longestDelay)
        let maximum = retry?["maximumDelay"]?.duration(upTo: .longestDelay)
        if let initial, let maximum, maximum < initial {
            retry?["maximumDelay"]?.report(expected: "at least the initialDelay")
        }
        if let initial, maximum == nil, initial > standard.maximumDelay {
            retry?["initialDelay"]?.report(
                expected:
                    "at most the maximumDelay, which is \(standard.maximumDelay.components.seconds)s if it is not given"
            )
        }
        return FailurePolicy(
            attempts: retry?["attempts"]?.integer(in: 1...1_000_000) ?? standard.attempts,
            initialDelay: initial ?? standard.initialDelay,
            maximumDelay: maximum ?? standard.maximumDelay,
            afterLastAttempt: fields["onFailure"]?.choice([FailurePolicy.AfterLastAttempt.hold, .skip])
                ?? standard.afterLastAttempt)
    }
}

/// The name of a secret that the service manager passes: `LoadCredential=` of systemd.exec(5).
enum CredentialName {
    static let expected = "a credential's name, of letters, digits, \".\", \"_\" and \"-\""

    static func read(_ node: DocumentNode) -> String? {
        guard let name = node.plainName(expected: expected) else { return nil }
        // The name becomes a file name.
        if name.contains(where: { $0 != "." }) { return name }
        node.report(expected: expected)
        return nil
    }
}

/// The name of a plugin or a hook.
enum PluginName {
    static let expected = "a name of letters, digits, \".\", \"_\" and \"-\""

    static func read(_ node: DocumentNode) -> String? { node.plainName(expected: expected) }
}
