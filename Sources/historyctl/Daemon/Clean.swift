import ArgumentParser
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Clean: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clean",
        abstract: "Delete history that every consumer has processed.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
    var store: String?
    @Flag(help: "Only show what would be deleted.")
    var dryRun = false
    @Flag(help: "Also delete history that a consumer has not processed; the consumer then starts over.")
    var force = false

    func run() async throws {
        let request = ControlCommand.clean(store: store, dryRun: dryRun, force: force)
        try await daemon.ask(request, CleanReport.self) { report, output in
            var table = TextTable(["STORE", "THROUGH", "CHANGES", "KEPT FOR", "PASSED BY"])
            try table.write(
                report.stores.map { store in
                    [
                        store.name, store.through, String(store.changes),
                        store.keptFor.map { "\($0.name) (\($0.changes))" }.joined(separator: ", "),
                        store.passedBy.joined(separator: ", "),
                    ]
                }, to: &output)
            for store in report.stores where store.changes == 0 {
                try output.writeLine("\(store.name.printable): \(store.whyNothing)".printable)
            }
        }
    }
}

extension CleanReport.Store {
    /// Why nothing was deleted, or would be deleted.
    fileprivate var whyNothing: String {
        let what = isDryRun ? "nothing would be deleted" : "nothing was deleted"
        if let first = keptFor.first {
            let more = keptFor.count > 1 ? " (and \(keptFor.count - 1) more)" : ""
            return "\(what): \(first.name)\(more) has not processed \(first.changes, "change")."
        }
        if let tooYoung {
            return
                "\(what): \(tooYoung.changes, "change"), since \(tooYoung.since), \(tooYoung.changes == 1 ? "is" : "are") younger than \"keep\"."
        }
        return "\(what): there is no history to delete."
    }
}
