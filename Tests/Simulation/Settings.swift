import FoundationEssentials
import Glibc
import PersistentHistory

/// What the daemon is configured with, as its files have it; a reload can change some of it.
struct Settings: Sendable {
    /// By a store's index: how many times each was changed.
    var changedPlugins: [Int: Int] = [:]
    var changedStores: [Int: Int] = [:]
    var isBroken = false

    /// How long something may lag in a healthy daemon, in nanoseconds, at most.
    static let healthyLag: Int64 = 6_000_000_000

    func write(_ scenario: Scenario, _ files: Files) throws {
        let isShared = files.isShared
        let stores = scenario.stores.prefix(isShared ? 1 : .max).enumerated().map {
            store(scenario, $0, $1, files)
        }.joined(separator: ",")
        let configuration = """
            {"version": \(isBroken ? 2 : 1), "logLevel": "trace", "stores": [\(stores)], \
            "plugins": ["\(files.manifest)"]}
            """
        let plugins = scenario.stores.prefix(isShared ? 1 : .max).enumerated().map { plugin($0, $1, files) }
            .joined(separator: ",")
        try configuration.write(toFile: files.configuration, atomically: false, encoding: .utf8)
        try "{\"version\": 1, \"plugins\": [\(plugins)]}".write(
            toFile: files.manifest, atomically: false, encoding: .utf8)
        // A program that is written again is another one.
        for index in scenario.stores.indices where access(files.program(of: index), F_OK) != 0 {
            try "#!/bin/sh\n".write(toFile: files.program(of: index), atomically: false, encoding: .utf8)
            chmod(files.program(of: index), 0o755)
        }
    }

    private func store(_ scenario: Scenario, _ index: Int, _ store: StoreSetup, _ files: Files) -> String {
        let lag = (changedStores[index] ?? 0) % 2 == 0 ? "5s" : "6s"
        let consumers = store.consumers.map { consumer in
            var contexts: [String] = []
            if consumer.hasReplica {
                let path = files.replica(files.isShared ? "{name}" : store.name, consumer.author)
                contexts.append("{\"name\": \"copy\", \"kind\": \"replica\", \"path\": \"\(path)\"}")
            }
            if consumer.hasFeed {
                contexts.append(
                    "{\"name\": \"feed\", \"kind\": \"feed\", \"window\": 3, \"healthyLag\": \"\(lag)\"}")
            }
            if consumer.hasIndex {
                contexts.append("{\"name\": \"index\", \"kind\": \"plugin\", \"plugin\": \"p\(index)\"}")
            }
            return """
                {"name": "\(consumer.author)", "batchWindow": "\(consumer.batchWindow)ms", \
                "contexts": [\(contexts.joined(separator: ","))]}
                """
        }
        let authors = Set(store.consumers.map(\.author))
        let writers = ["App0", "App1", "Copy0", "Copy1", "Writer", "Torn"].filter { !authors.contains($0) }
            .map { "{\"name\": \"\($0)\", \"batch\": true}" }
        let clean =
            store.cleaning ?? store.cleansAfter.map { "{\"strategy\": \"byNotification\", \"times\": \($0)}" }
            ?? "{\"strategy\": \"none\"}"
        let place =
            files.isShared
            ? folder(of: scenario, files)
            : "\"name\": \"\(store.name)\", \"path\": \"\(files.store(store.name))\""
        return """
            {\(place), "healthyLag": "\(lag)", \
            "entities": {"person": {}, "item": {}}, "clean": \(clean), \
            "authors": [\((consumers + writers).joined(separator: ","))]}
            """
    }

    private func folder(of scenario: Scenario, _ files: Files) -> String {
        let limit = scenario.kind == .upkeep ? ", \"maximumStores\": 3" : ""
        let rest = scenario.rest.map { ", \"rest\": \"\($0)\"" } ?? ""
        return
            "\"name\": \"{name}\", \"folder\": \"\(files.folder(of: ""))\", \"pattern\": \"*.sqlite\"\(limit)\(rest)"
    }

    private func plugin(_ index: Int, _ store: StoreSetup, _ files: Files) -> String {
        let stores = files.isShared ? "s*" : store.name
        let hooks = store.consumers.flatMap { consumer in
            consumer.hooks.map { hook in
                let name = hook.name.split(separator: "/").last ?? ""
                if hook.isMerger {
                    return """
                        {"name": "\(name)", "kind": "merge", "store": "\(stores)", "consumer": "\(consumer.author)"}
                        """
                }
                return """
                    {"name": "\(name)", "kind": "observer", "entity": "\(hook.entity ?? "*")"\(hook.filter.members), \
                    \(hook.hasValues ? "\"values\": true, " : "")\
                    "calls": "\(hook.isForBatches ? "batch" : "transaction")", \
                    "store": "\(stores)", "consumer": "\(consumer.author)"}
                    """
            }
        }
        return """
            {"name": "p\(index)", "command": ["\(files.program(of: index))"], \
            \(store.isOneshot ? "\"mode\": \"oneshot\"" : "\"mode\": \"coprocess\", \"window\": \(store.window)"), "timeout": "\((changedPlugins[index] ?? 0) % 2 == 0 ? "5s" : "6s")", \
            "retry": {"attempts": 3, "initialDelay": "20ms", "maximumDelay": "500ms"}, \
            "onFailure": "\(store.skips ? "skip" : "hold")", "hooks": [\(hooks.joined(separator: ","))]}
            """
    }
}
