import FoundationEssentials
import Logging
import PersistentHistory
import ServiceLifecycle

/// Counters that alerts are written against: they go on after a restart.
///
/// They are kept in a file of their own in the state folder, for a plugin's belong to no store.
struct AlertCounters: Codable, Sendable, Equatable {
    struct Hook: Codable, Sendable, Equatable {
        /// Attempts that failed.
        var failures = 0
    }

    struct Store: Codable, Sendable, Equatable {
        var deletedChanges = 0
        /// In milliseconds since 1970.
        var cleanedAt: Int64?
        /// Calls that were given up, by consumer.
        var deadLetters: [String: Int] = [:]
    }

    var hooks: [String: Hook] = [:]
    var stores: [String: Store] = [:]
    /// How often a coprocess has ended by itself, or could not be started.
    var pluginEnds: [String: Int] = [:]

    /// A plugin without hooks in force is gone as well.
    mutating func keepOnly(stores: Set<String>, hooks: Set<String>) {
        let plugins = Set(hooks.map { String($0.prefix { $0 != "/" }) })
        self.hooks = self.hooks.filter { hooks.contains($0.key) }
        self.stores = self.stores.filter { stores.contains($0.key) }
        pluginEnds = pluginEnds.filter { plugins.contains($0.key) }
    }
}

/// Saves the counters, a second after the first that has changed and when the daemon stops: a daemon that is killed
/// loses at most that second.
final class CounterKeeper: Service {
    private let path: String
    private let logger: Logger
    private let status: LiveStatus
    private let changes = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(stateFolder: String, status: LiveStatus, logger: Logger) {
        path = Self.path(in: stateFolder)
        self.status = status
        self.logger = logger
        status.onCount { [continuation = changes.continuation] in continuation.yield() }
    }

    static func path(in folder: String) -> String { "\(folder)/counters.json" }

    /// What an earlier run has counted. A file that cannot be read is worth a warning, and nothing else.
    static func load(from folder: String, logger: Logger) -> AlertCounters {
        do {
            guard let bytes = try AtomicFile.read(path(in: folder)) else { return AlertCounters() }
            return try JSONDecoder().decode(AlertCounters.self, from: Data(bytes))
        } catch {
            logger.warning(
                "The counters of earlier runs in \"\(path(in: folder))\" cannot be read, and begin again: \(error)"
            )
            return AlertCounters()
        }
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            for await _ in changes.stream {
                // Thrown is only that the daemon stops.
                try? await Task.sleep(for: .seconds(1), clock: .loop)
                await onPool { save() }
            }
        }
        save()
    }

    private func save() {
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            try AtomicFile.write([UInt8](try encoder.encode(status.read(\.counters))), to: path)
        } catch {
            logger.debug("The counters cannot be saved.", metadata: ["error": "\(error)"])
        }
    }
}
