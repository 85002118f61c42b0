/// All plugins with a hook in force, or a context to update.
package struct PluginList: Codable, Sendable, Hashable {
    package struct Plugin: Codable, Sendable, Hashable {
        package var name: String
        /// `coprocess` or `oneshot`.
        package var mode: String
        package var command: [String]
        /// `running` or `failing`; absent for a plugin that is started for each call.
        package var state: PluginReport.State?
        /// How often its process has ended by itself since the daemon started.
        package var failures: Int
        package var problem: String?
        /// The full names of its hooks.
        package var hooks: [String]

        package init(
            name: String, mode: String, command: [String], state: PluginReport.State?, failures: Int,
            problem: String?, hooks: [String]
        ) {
            self.name = name
            self.mode = mode
            self.command = command
            self.state = state
            self.failures = failures
            self.problem = problem
            self.hooks = hooks
        }
    }

    package var plugins: [Plugin]

    package init(plugins: [Plugin]) { self.plugins = plugins }
}

/// A plugin whose process was restarted.
package struct PluginRestart: Codable, Sendable, Hashable {
    package var plugin: String
    /// Why the new process does not run; absent if it does.
    package var problem: String?

    package init(plugin: String, problem: String?) {
        self.plugin = plugin
        self.problem = problem
    }
}

/// A test call to a hook, and its outcome.
package struct PluginTest: Codable, Sendable, Hashable {
    package var hook: String
    /// The parameters.
    package var call: String
    /// Nil if the call was only shown.
    package var succeeded: Bool?
    /// A merge hook's answer: `goOn` or `finish`.
    package var result: String?
    /// Why it failed.
    package var problem: String?
    package var seconds: Double?
    /// What the process wrote to standard error.
    package var errors: [String] = []

    package init(hook: String, call: String) {
        self.hook = hook
        self.call = call
    }
}
