/// A plugin as its manifest names it: what is run, how, and for how long a call may take.
package struct PluginDescription: Sendable, Hashable {
    package enum Mode: String, Sendable, Hashable {
        /// Started once, kept, and restarted when it dies.
        case coprocess
        /// Started for each call.
        case oneshot
    }

    package let name: String
    /// The program and its arguments. A program without a slash is looked for in `PATH`.
    package let command: [String]
    package let mode: Mode
    /// Added to the daemon's own environment.
    package let environment: [String: String]
    /// The same for secrets: the names of the credentials that hold the values.
    package let credentials: [String: String]
    /// How long one call may take; then the plugin's process group is killed.
    package let timeout: Duration
    /// Requests that a coprocess may have left unanswered.
    package let window: Int
    /// Nil is the daemon's own.
    package let workingDirectory: String?

    package init(
        name: String, command: [String], mode: Mode = .oneshot, environment: [String: String] = [:],
        credentials: [String: String] = [:], timeout: Duration = .seconds(5), window: Int = 64,
        workingDirectory: String? = nil
    ) {
        self.name = name
        self.command = command
        self.mode = mode
        self.environment = environment
        self.credentials = credentials
        self.timeout = timeout
        self.window = window
        self.workingDirectory = workingDirectory
    }
}
