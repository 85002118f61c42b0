import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Untrack: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "untrack",
        abstract: "Stop recording.",
        discussion: """
            Without an entity, this removes everything that tracking added, including the history; the \
            schema is then as it was before. A store that a daemon or a tracker serves is left alone (status \
            75): take it out of the configuration first. With entities, only these are no longer recorded. Their \
            changes stay in the history until it is cleaned.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Argument(help: "The entities; without any, all.")
    var entities: [String] = []

    @Flag(help: "Delete the entities' recorded changes at once.")
    var purge = false

    func run() async throws {
        let names: [String]
        do {
            names =
                entities.isEmpty
                ? try await Tracking.untrackUnserved(store)
                : try Tracking.untrack(store, entities, purging: purge)
        } catch let error as HistoryError where error.code == .storeServedElsewhere {
            throw HistoryError(
                error.code,
                "The store \"\(store)\" is served by a daemon or a tracker, which would track it again under a new id.",
                hint: "\(await ServingDaemon.of(store)?.removal ?? Self.removal) Then untrack it.", cause: error
            )
        }
        var output = StandardOutput()
        for name in names { try output.writeLine("untracked \(name)") }
        try output.flush()
        guard !entities.isEmpty, let daemon = await ServingDaemon.of(store) else { return }
        Historyctl.complain(
            "note: a daemon serves the store as \"\(daemon.name)\". If \(daemon.configuration) names an entity, take it out, and run \(daemon.reload); else it is tracked again."
        )
    }

    private static let removal =
        "Take it out of the configuration of the daemon, and run historyctl reload; or stop the daemon or tracker."
}

/// The daemon that serves a store, if one answers.
private struct ServingDaemon {
    /// The name of the store there.
    let name: String
    let configuration: String
    let socket: String

    /// Queries the daemons of this user and of the system, and their instances.
    static func of(_ store: String) async -> ServingDaemon? {
        for socket in ControlSocket.all() {
            let client = ControlClient(socketPath: socket, timeout: .seconds(2))
            guard let bytes = try? await client.send(.status),
                let status = try? ControlJSON.read(DaemonReport.self, from: bytes),
                let found = status.stores.first(where: { isSameFile($0.path, store) })
            else { continue }
            return ServingDaemon(name: found.name, configuration: status.configuration, socket: socket)
        }
        return nil
    }

    private static func isSameFile(_ path: String, _ other: String) -> Bool {
        var (status, otherStatus) = (Glibc.stat(), Glibc.stat())
        return stat(path, &status) == 0 && stat(other, &otherStatus) == 0
            && status.st_dev == otherStatus.st_dev && status.st_ino == otherStatus.st_ino
    }

    var reload: String { "historyctl reload\(socket == ControlSocket.client() ? "" : " --socket \(socket)")" }

    var removal: String {
        "Take store \"\(name)\" out of \(configuration), and run \(reload); or stop the daemon."
    }
}
