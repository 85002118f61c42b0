/// A plugin as its manifest names it: what is run, how, and for how long a call may take.
public struct PluginDescription: Sendable, Hashable {
    public enum Mode: String, Sendable, Hashable {
        /// Started once, kept, and restarted when it dies.
        case coprocess
        /// Started for each call.
        case oneshot
    }

    public let name: String
    /// The program and its arguments. A program without a slash is looked for in `PATH`.
    public let command: [String]
    public let mode: Mode
    /// Added to the daemon's own environment.
    public let environment: [String: String]
    /// How long one call may take; then the plugin's process group is killed.
    public let timeout: Duration
    /// Requests that a coprocess may have left unanswered.
    public let window: Int
    /// Nil is the daemon's own.
    public let workingDirectory: String?

    public init(
        name: String, command: [String], mode: Mode = .oneshot, environment: [String: String] = [:],
        timeout: Duration = .seconds(5), window: Int = 64, workingDirectory: String? = nil
    ) {
        self.name = name
        self.command = command
        self.mode = mode
        self.environment = environment
        self.timeout = timeout
        self.window = window
        self.workingDirectory = workingDirectory
    }
}
