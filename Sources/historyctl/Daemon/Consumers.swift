import ArgumentParser
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Consumers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "consumers", abstract: "Show the consumers, and move them.",
        subcommands: [List.self, Move.self], defaultSubcommand: List.self)

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Show how far each consumer is, and what it waits for.")

        @OptionGroup var daemon: DaemonOptions

        @Option(
            help: "Only the consumers of this store, or of those that fit a pattern (\"tenant-*\").",
            completion: .stores)
        var store: String?

        func run() async throws {
            try await daemon.ask(.consumers(store: store), ConsumerList.self) { list, output in
                if store != nil { return try list.write(to: &output) }
                let notable = list.consumers.filter(\.isNotable)
                if !notable.isEmpty || list.consumers.isEmpty {
                    try ConsumerList(consumers: notable).write(to: &output)
                }
                try list.writeOmissions(to: &output)
            }
        }
    }

    struct Move: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "move",
            abstract: "Move a consumer back, so that its hooks are called again, or forward.",
            discussion: """
                Calls that come again have other delivery ids than the first time, and "replay": true. Contexts \
                and feeds keep their own positions. History that was deleted is refused with status 69. To move \
                forward leaves out what the hooks have not received, and needs --skip.
                """)

        @OptionGroup var daemon: DaemonOptions
        @Argument(help: "The consumer.", completion: .consumers)
        var consumer: String
        @Option(
            help:
                "Where it continues: after a token, \"oldest\", \"newest\", or before the first transaction that was made at a date or later.",
            transform: { text in
                if text.isEmpty { throw ValidationError("A position is needed.") }
                return text
            })
        var to: String
        @Option(
            help: "The consumer's store, if several have a consumer of that name.", completion: .stores)
        var store: String?
        @Flag(help: "Move forward, too: the hooks never receive what lies in between.")
        var skip = false
        @Flag(help: "Only show what would be repeated or left out.")
        var dryRun = false

        func run() async throws {
            func command(_ to: String, dryRun: Bool) -> ControlCommand {
                .moveConsumer(consumer, to: to, store: store, skip: skip, dryRun: dryRun)
            }
            // Readers see the plan before it is carried out.
            guard !dryRun, daemon.format == .table else {
                try await daemon.ask(command(to, dryRun: dryRun), MoveReport.self) {
                    try $1.writeLine($0.plan)
                }
                return
            }
            let plan = try await daemon.ask(command(to, dryRun: true), MoveReport.self) {
                try $1.writeLine($0.plan)
            }
            if plan.from == plan.to { return }
            try await daemon.ask(command(plan.to, dryRun: false), MoveReport.self) {
                try $1.writeLine("\($0.consumer.printable) is at \($0.to)")
            }
        }
    }
}

extension MoveReport {
    /// What is repeated or skipped.
    fileprivate var plan: String {
        if from == to { return "\(consumer.printable) is at \(to) already." }
        let count = "\(isAtLeast == true ? "at least " : "")\(transactions, "transaction"), \(calls, "call")"
        return "\(consumer.printable) from \(from) to \(to): \(count) to \(isForward ? "leave out" : "repeat")."
    }
}

extension ConsumerList {
    /// Writes how many consumers of a folder's stores are not listed.
    fileprivate func writeOmissions(to output: inout StandardOutput) throws {
        let omitted = Dictionary(grouping: consumers.filter { !$0.isNotable }) { $0.template ?? "" }
        for (template, consumers) in omitted.sorted(by: { $0.key < $1.key }) {
            let behind = consumers.count { $0.state == .behind }
            try output.writeLine(
                "\n\(consumers.count, "consumer") of \(template.printable) without a problem, \(behind) of them behind. --store lists them."
            )
        }
    }
}
