import ArgumentParser
import PersistentHistory

struct Untrack: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "untrack",
        abstract: "Stop recording.",
        discussion: """
            Without an entity, this removes everything that tracking added, including the history; the \
            schema is then as it was before. With entities, only these are no longer recorded. Their \
            changes stay in the history until it is cleaned.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Argument(help: "The entities; without any, all.")
    var entities: [String] = []

    @Flag(help: "Delete the entities' recorded changes at once.")
    var purge = false

    func run() throws {
        let names = try Tracking.untrack(store, entities.isEmpty ? nil : entities, purging: purge)
        var output = StandardOutput()
        for name in names { try output.writeLine("untracked \(name)") }
        try output.flush()
    }
}
