import ArgumentParser
import HistoryBase
import HistoryConfiguration
import HistoryControl

struct DeadLetters: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead-letters", abstract: "List, retry and drop calls that were given up.",
        subcommands: [List.self, Retry.self, Drop.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Show the calls that were given up. --format json shows them completely.")

        @OptionGroup var daemon: DaemonOptions
        @Option(help: "Only the calls of this store.", completion: .stores)
        var store: String?

        func run() async throws {
            try await daemon.ask(.deadLetters(store: store), DeadLetterList.self) { list, output in
                var table = TextTable(["ID", "CONSUMER", "HOOK", "KEPT", "ATTEMPTS", "REASON"], names: [0])
                try table.write(
                    list.deadLetters.map { letter in
                        [
                            letter.id, letter.consumer, letter.hook, letter.keptAt, String(letter.attempts),
                            letter.reason,
                        ]
                    }, to: &output)
                try table.writeCut(to: &output)
            }
        }
    }

    /// Selects dead letters.
    struct Which: ParsableArguments {
        @Argument(help: "The dead letter's id, as the list shows it.")
        var id: String?
        @Flag(help: "All dead letters.")
        var all = false
        @Option(help: "With --all: only those of this store.", completion: .stores)
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
