import ArgumentParser
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Clean: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clean",
        abstract: "Delete history that every consumer has processed.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.")
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
    /// Why nothing was deleted, or would be.
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
        return "\(what): there is no history that is cleaned."
    }
}

struct Resync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resync",
        abstract: "Fill a replica, or a context that a plugin keeps, again from its store.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The name of the context.")
    var context: String
    @Option(help: "Its store, if several stores have such a context.")
    var store: String?
    @Option(help: "Its consumer, if several consumers have such a context.")
    var consumer: String?

    func run() async throws {
        let request = ControlCommand.resync(context: context, store: store, consumer: consumer)
        try await daemon.ask(request, ResyncReport.self) { try $1.writeLine($0.token) }
    }
}

struct DeadLetters: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead-letters", abstract: "List, retry and drop calls that were given up.",
        subcommands: [List.self, Retry.self, Drop.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Show the calls that were given up. --format json shows them completely.")

        @OptionGroup var daemon: DaemonOptions
        @Option(help: "Only the calls of this store.")
        var store: String?

        func run() async throws {
            try await daemon.ask(.deadLetters(store: store), DeadLetterList.self) { list, output in
                var table = TextTable(["ID", "CONSUMER", "HOOK", "KEPT", "ATTEMPTS", "REASON"])
                try table.write(
                    list.deadLetters.map { letter in
                        [
                            letter.id, letter.consumer, letter.hook, letter.keptAt, String(letter.attempts),
                            letter.reason,
                        ]
                    }, to: &output)
            }
        }
    }

    /// Which of them.
    struct Which: ParsableArguments {
        @Argument(help: "The dead letter's id, as the list shows it.")
        var id: String?
        @Flag(help: "All dead letters.")
        var all = false
        @Option(help: "With --all: only those of this store.")
        var store: String?

        func validate() throws {
            guard (id != nil) != all, id == nil || store == nil else {
                throw ValidationError("Name the dead letters: an ID, or --all, with or without --store.")
            }
        }

        var selection: DeadLetterSelection { DeadLetterSelection(id: id, store: store) }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "retry",
            abstract: "Repeat calls, and drop those that succeed. Status 75 if one fails.")

        @OptionGroup var daemon: DaemonOptions
        @OptionGroup var which: Which

        func run() async throws {
            let outcome = try await daemon.ask(.retryDeadLetters(which.selection), DeadLetterOutcome.self) {
                for id in $0.delivered ?? [] { try $1.writeLine("\(id.printable) delivered") }
                for failure in $0.failed ?? [] {
                    try $1.writeLine("\(failure.id.printable) failed: \(failure.reason.printable)")
                }
            }
            guard outcome.failed?.isEmpty ?? true else { throw ExitCode(ExitStatus.temporary.rawValue) }
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "drop", abstract: "Delete calls that were given up.")

        @OptionGroup var daemon: DaemonOptions
        @OptionGroup var which: Which

        func run() async throws {
            try await daemon.ask(.dropDeadLetters(which.selection), DeadLetterOutcome.self) {
                for id in $0.dropped ?? [] { try $1.writeLine("\(id.printable) dropped") }
            }
        }
    }
}
