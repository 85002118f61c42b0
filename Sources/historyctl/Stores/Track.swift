import ArgumentParser
import Glibc
import PersistentHistory

struct Track: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "track",
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
        let tables = try Tracking.tables(of: store)
        let wanted = try PreservedColumns(tables: tables, named: entities).entities(preserving: preserve)
        if Migration.isUnderWay(store) { throw Migration.underWay(store) }
        let outcome = try Tracking.track(store, wanted, all: all)
        var output = StandardOutput()
        if all, tables.isEmpty, outcome.isEmpty {
            try output.writeLine("The store has no table to track yet.")
        } else {
            try outcome.write(to: &output)
        }
        try output.flush()
        // For a user at a terminal: scripts read the output.
        guard isatty(STDERR_FILENO) != 0, !outcome.added.isEmpty else { return }
        if let note = try JournalMode.note(on: store) {
            Historyctl.complain("note: \(note)")
        }
        if let note = try ConnectionLimits(neededBy: store).note { Historyctl.complain("note: \(note)") }
    }
}

extension Tracking.Outcome {
    /// Writes what was done, a line for each table.
    func write(to output: inout StandardOutput) throws {
        if beganAgain {
            try output.writeLine(
                "warning: tables of the history were missing; a new history begins, with a new store id")
        }
        for name in added { try output.writeLine("tracked \(name)") }
        for name in updated { try output.writeLine("updated \(name)") }
        for name in dropped { try output.writeLine("dropped \(name), whose table is gone") }
        if isEmpty, unfit.isEmpty { try output.writeLine("up to date") }
        for (name, reasons) in doubts.sorted(by: { $0.key < $1.key }) {
            let reason = reasons.joined(separator: ", and ")
            try output.writeLine(
                "warning: changes of \(name) may go unrecorded: \(reason)")
        }
        for (_, reason) in unfit.sorted(by: { $0.key < $1.key }) {
            try output.writeLine("warning: \(reason)")
        }
        if !recreated.isEmpty {
            let names = recreated.joined(separator: ", ")
            try output.writeLine(
                "changes of \(names) may have gone unrecorded until now; every consumer is notified")
        }
    }
}
