/// The configuration: `historyd.json` and its drop-ins together. Every path is absolute.
package struct DaemonConfiguration: Sendable, Hashable {
    /// In the order of the files. There is at least one store or template.
    package var stores: [StoreConfiguration]
    /// Entries whose stores are the files of a folder.
    package var templates: [StoreTemplate] = []
    /// Manifests: each a file, or a folder of `*.json`.
    package var plugins: [String] = []
    package var logLevel: LogLevel = .info
    /// The format of log lines, unless the log goes to the journal.
    package var logFormat: LogFormat = .text
    /// How long a stop waits for the calls in flight.
    package var stopTimeout = Self.defaultStopTimeout

    /// The plugins that keep contexts.
    package var contextPlugins: Set<String> {
        Set(
            storesAndPrototypes.flatMap(\.consumers).flatMap(\.contexts).compactMap { context in
                if case .plugin(let name) = context.kind { name } else { nil }
            })
    }

    /// The stores, and the prototype of each template.
    package var storesAndPrototypes: [StoreConfiguration] { stores + templates.map(\.prototype) }

    /// The default of `stopTimeout`.
    package static let defaultStopTimeout: Duration = .seconds(20)
}

/// The format of a log line.
package enum LogFormat: String, Sendable, CaseIterable {
    case text, json
}

/// How much is logged. The names are those of swift-log, and `off`.
package enum LogLevel: String, Sendable, CaseIterable {
    case trace, debug, info, notice, warning, error, critical, off
}
