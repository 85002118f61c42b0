import ArgumentParser
import PersistentHistory

struct Untrack: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Stop recording.",
        discussion: """
            With no entity named, everything that tracking made is taken away, the history included, \
            and the schema is as it was before. With entities, they are no longer recorded, and their \
            changes stay in the history until they are cleaned.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Argument(help: "Entities; all of them where none is named.")
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
