/// What an operator wrote: `historyd.json` and its drop-ins together. Every path is absolute.
package struct DaemonConfiguration: Sendable, Hashable {
    /// At least one, in the order of the files.
    package var stores: [StoreConfiguration]
    /// Manifests: each a file, or a folder of `*.json`.
    package var plugins: [String] = []
    package var logLevel: LogLevel = .info
    /// How long a stop waits for the calls in flight.
    package var stopTimeout = Self.defaultStopTimeout

    /// The plugins that keep contexts.
    package var contextPlugins: Set<String> {
        Set(
            stores.flatMap(\.consumers).flatMap(\.contexts).compactMap { context in
                if case .plugin(let name) = context.kind { name } else { nil }
            })
    }

    /// What `stopTimeout` is where a configuration does not say.
    package static let defaultStopTimeout: Duration = .seconds(20)
}

/// How much is logged. The names are those of swift-log, and `off`.
package enum LogLevel: String, Sendable, CaseIterable {
    case trace, debug, info, notice, warning, error, critical, off
}
