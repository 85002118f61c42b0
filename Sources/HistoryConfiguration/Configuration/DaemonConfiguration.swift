/// What an operator wrote: `historyd.json` and its drop-ins together. Every path is absolute.
public struct DaemonConfiguration: Sendable, Hashable {
    /// At least one, in the order of the files.
    public var stores: [StoreConfiguration]
    /// Manifests: each a file, or a folder of `*.json`.
    public var plugins: [String]
    public var logLevel: LogLevel
    /// How long a stop waits for the calls in flight.
    public var stopTimeout: Duration

    /// What `stopTimeout` is where a configuration does not say.
    public static let defaultStopTimeout: Duration = .seconds(20)

    public init(
        stores: [StoreConfiguration], plugins: [String] = [], logLevel: LogLevel = .info,
        stopTimeout: Duration = Self.defaultStopTimeout
    ) {
        self.stores = stores
        self.plugins = plugins
        self.logLevel = logLevel
        self.stopTimeout = stopTimeout
    }
}

/// How much is logged. The names are those of swift-log.
public enum LogLevel: String, Sendable, CaseIterable {
    case trace, debug, info, notice, warning, error, critical
}
