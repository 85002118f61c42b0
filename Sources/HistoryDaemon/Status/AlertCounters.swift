import FoundationEssentials
import Glibc
import Logging
import PersistentHistory
import ServiceLifecycle

/// Counters for alert rules: they continue after a restart.
///
/// They have their own file in the state folder, because a plugin's counters belong to no store.
struct AlertCounters: Codable, Sendable, Equatable {
    struct Hook: Codable, Sendable, Equatable {
        /// Attempts that failed.
        var failures = 0
        /// How many of these were to be retried.
        var retries = 0
    }

    struct Store: Codable, Sendable, Equatable {
        var deletedChanges = 0
        /// In milliseconds since 1970. Optional as every later member must be: older files lack it.
        var cleanedAt: Int64?
        /// Calls that were given up, by consumer.
        var deadLetters: [String: Int] = [:]
    }

    var hooks: [String: Hook] = [:]
    var stores: [String: Store] = [:]
    /// How often a coprocess has ended by itself, or could not be started.
    var pluginEnds: [String: Int] = [:]

    /// Forgets removed stores.
    mutating func forget(stores: Set<String>) { for name in stores { self.stores[name] = nil } }

    /// Keeps only what is in force. A plugin without hooks in force is removed as well.
    ///
    /// - Parameter mayCome: Whether a name may belong to a store of a folder that is yet to be listed.
    mutating func keepOnly(stores: Set<String>, hooks: Set<String>, mayCome: (String) -> Bool = { _ in false })
    {
        let plugins = Set(hooks.map { String($0.prefix { $0 != "/" }) })
        self.hooks = self.hooks.filter { hooks.contains($0.key) }
        self.stores = self.stores.filter { stores.contains($0.key) || mayCome($0.key) }
        pluginEnds = pluginEnds.filter { plugins.contains($0.key) }
    }

    /// Whether a daemon can have counted these values, and can continue from them.
    fileprivate var arePossible: Bool {
        let all =
            hooks.values.flatMap { [$0.failures, $0.retries] }
            + stores.values.flatMap { [$0.deletedChanges] + $0.deadLetters.values } + pluginEnds.values
        return all.allSatisfy { (0...Self.most).contains($0) }
    }

    /// Prometheus' numbers are exact up to this value.
    static let most = 1 << 53
}

extension AlertCounters {
    private static let mostBytes = 16 << 20

    private struct Impossible: Error, CustomStringConvertible {
        let description: String
    }

    /// The counters of an earlier run; nil if there are none.
    ///
    /// - Throws: `SystemError` if the file cannot be read, others if it is damaged.
    static func read(_ path: String) throws -> AlertCounters? {
        guard let bytes = try AtomicFile.read(path, most: mostBytes) else { return nil }
        let counters: AlertCounters
        do {
            counters = try JSONDecoder().decode(AlertCounters.self, from: Data(bytes))
        } catch {
            throw Impossible(description: "it is not what historyd writes")
        }
        guard counters.arePossible else {
            throw Impossible(description: "it has a number that is no count")
        }
        return counters
    }
}

/// Saves the counters, a second after the first change and when the daemon stops: a daemon that is killed loses
/// at most that second.
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

    /// The counters of an earlier run. A damaged file is moved aside, and counting starts over.
    static func load(from folder: String, logger: Logger) -> AlertCounters {
        let path = path(in: folder)
        do {
            return try AlertCounters.read(path) ?? AlertCounters()
        } catch let error as SystemError where ![EISDIR, EFBIG].contains(error.number) {
            // Only reading failed: the content may be intact, so the file stays in place.
            logger.warning("The counters in \"\(path)\" cannot be read, and counting starts over: \(error).")
        } catch {
            do {
                let newPath = try DamagedFile.moveAside(path, at: .now)
                logger.report(
                    .stateCorrupt,
                    "The counters in \"\(path)\" are damaged: \(error). The file was moved to \"\(newPath)\", and counting starts over."
                )
            } catch {
                logger.warning("The counters start over. \(error)")
            }
        }
        return AlertCounters()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            for await _ in changes.stream {
                // It throws only when the daemon stops.
                try? await Task.sleep(for: .seconds(1), clock: .loop)
                await onPool { self.save() }
            }
        }
        await onPool { self.save() }
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
