import ArgumentParser
import PersistentHistory

struct Track: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Record the changes of a store's tables.",
        discussion: """
            For tables that are already tracked, this updates the triggers to the schema: new, renamed and \
            dropped columns, renamed tables. Without an entity, it does only that. Nothing else in the \
            store is changed.
            """)

    @Argument(help: "The SQLite file.", completion: .file())
    var store: String

    @Argument(help: "Tables to track.")
    var entities: [String] = []

    @Flag(help: "Track every ordinary table.")
    var all = false

    @Option(
        help: ArgumentHelp(
            "A column whose value is kept when a row is deleted.",
            discussion: """
                The columns given for an entity replace those that were preserved before; an entity \
                without any keeps its columns. An entity that is named here is tracked. Names may contain \
                dots. If the text fits several of the store's tables, an entity named in the command is \
                preferred, then the longest name.
                """,
            valueName: "entity.column"))
    var preserve: [String] = []

    func run() throws {
        let wanted = try PreservedColumns(tables: Tracking.tables(of: store), named: entities)
            .entities(preserving: preserve)
        let outcome = try Tracking.track(store, wanted, all: all)
        var output = StandardOutput()
        for name in outcome.added { try output.writeLine("tracked \(name)") }
        for name in outcome.updated { try output.writeLine("updated \(name)") }
        for name in outcome.dropped { try output.writeLine("dropped \(name), whose table is gone") }
        if outcome.isEmpty { try output.writeLine("up to date") }
        for (name, reasons) in outcome.doubts.sorted(by: { $0.key < $1.key }) {
            let reason = reasons.joined(separator: ", and ")
            try output.writeLine(
                "warning: rows of \(name) that REPLACE removes may go unrecorded: \(reason)")
        }
        try output.flush()
    }
}
