import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the state of the daemon and its stores.")

    @OptionGroup var daemon: DaemonOptions
    @Flag(help: "Print the status again after each change, until interrupted.")
    var watch = false

    func run() async throws {
        if !watch { return try show(try await daemon.client.send(.status)) }
        var last: [UInt8] = []
        while true {
            let bytes: [UInt8]
            do {
                bytes = try await daemon.client.send(.status)
            } catch let error as ControlClient.Unreachable where !last.isEmpty && !error.isForbidden {
                // The daemon may be restarted; one message about that is enough.
                if last != Self.gone { Historyctl.complain("\(error)") }
                last = Self.gone
                try await Task.sleep(for: .seconds(1))
                continue
            }
            if bytes != last {
                // A terminal shows only the latest answer.
                if StandardOutput.isTerminal {
                    print("\u{1B}[H\u{1B}[2J", terminator: "")
                    fflush(nil)
                }
                try show(bytes)
            }
            last = bytes
            // It throws when the program is interrupted.
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Stands for a missing answer.
    private static let gone = Array("gone".utf8)

    private func show(_ bytes: [UInt8]) throws {
        try daemon.show(bytes, DaemonReport.self) { report, output in
            let properties = [
                ("Version", "\(report.version), process \(report.processID)"),
                ("Since", report.startedAt), ("State", report.summary),
                ("Configuration", report.configuration), ("Log level", report.logLevel),
                (
                    "Last reload",
                    report.reload.map { $0.problems.isEmpty ? "\($0.at)" : "\($0.at), refused" } ?? ""
                ),
            ]
            for (name, value) in properties where !value.isEmpty {
                try output.writeLine("\(name):".padded(to: 16) + value.printable)
            }
            for problem in report.reload?.problems ?? [] { try output.writeLine("  \(problem.printable)") }
            try output.writeLine("")
            var table = TextTable(
                ["STORE", "STATE", "NEWEST", "CONSUMERS", "DEAD LETTERS", "PROBLEM"], names: [0])
            let stores = report.stores.filter(\.isNotable)
            let rows = stores.map { store in
                [
                    store.name, store.state.rawValue, store.newest?.tokenNumber ?? "",
                    String(store.consumers.count),
                    String(store.consumers.compactMap(\.deadLetters).reduce(0, +)), store.worst ?? "",
                ]
            }
            if !rows.isEmpty || report.templates == nil { try table.write(rows, to: &output) }
            try table.writeCut(to: &output)
            try report.writeTemplates(to: &output)
            for store in stores {
                guard let count = store.unlistedChanges, count > 0 else { continue }
                try output.writeLine(
                    "\nStore \(store.name.printable) keeps \(count, "change") by unlisted authors without limit. Set \"cleanUnlisted\": true to clean them."
                )
            }
            for store in stores where store.neverCleaned == true {
                guard let changes = store.changes, changes > 0 else { continue }
                try output.writeLine(
                    "\nStore \(store.name.printable) is never cleaned and has \(Int(changes), "change") of history. Set \"clean\" in its configuration, or run historyctl clean."
                )
            }
            for reason in stores.compactMap(\.cleaningWaits) {
                try output.writeLine("\n\(reason.printable)")
            }
            try report.writeFailingPlugins(to: &output)
            try ConsumerList(consumers: stores.flatMap(\.consumers)).writeFeeds(to: &output)
        }
    }
}

extension DaemonReport {
    /// Writes the folders whose files are stores, one per line.
    fileprivate func writeTemplates(to output: inout StandardOutput) throws {
        guard let templates, !templates.isEmpty else { return }
        if stores.contains(where: \.isNotable) { try output.writeLine("") }
        var table = TextTable(
            [
                "TEMPLATE", "STORES", "OPEN", "RESTING", "WAITING", "PAUSED", "LAGGING", "FAILING",
                "DEAD LETTERS",
                "REFUSED",
                "PROBLEM",
            ], names: [0])
        try table.write(
            templates.map { template in
                [template.name]
                    + [
                        template.stores, template.open, template.resting, template.waiting, template.paused,
                        template.lagging,
                        template.failing, template.deadLetters, template.refused,
                    ].map { String($0) } + [template.problem ?? ""]
            }, to: &output)
        try table.writeCut(to: &output)
    }

    fileprivate func writeFailingPlugins(to output: inout StandardOutput) throws {
        let failing = (plugins ?? []).filter { $0.state == .failing }
        if failing.isEmpty { return }
        try output.writeLine("")
        var table = TextTable(["PLUGIN", "STATE", "FAILURES", "PROBLEM"], names: [0])
        try table.write(
            failing.map { [$0.name, $0.state.rawValue, String($0.failures), $0.problem ?? ""] }, to: &output)
        try table.writeCut(to: &output)
    }
}

extension StoreReport {
    /// The store's problem, or else that of the first consumer that has one.
    fileprivate var worst: String? {
        if let problem { return problem }
        if let first = untracked?.first {
            let more = (untracked?.count ?? 1) - 1
            return "not tracked as configured: \(first.reason)" + (more > 0 ? " (and \(more) more)" : "")
        }
        let failing = consumers.filter { $0.problem != nil }
        guard let first = failing.first, let problem = first.problem else { return nil }
        return "\(first.consumer): \(problem)" + (failing.count > 1 ? " (and \(failing.count - 1) more)" : "")
    }
}

extension ConsumerList {
    func write(to output: inout StandardOutput) throws {
        var table = TextTable(
            ["STORE", "CONSUMER", "STATE", "BEHIND", "CURSOR", "CONTEXTS", "DEAD LETTERS", "PROBLEM"],
            names: [0, 1])
        try table.write(
            consumers.map { consumer in
                [
                    consumer.store, consumer.consumer, consumer.state.rawValue,
                    consumer.behind.map { String($0) } ?? "", consumer.cursor?.tokenNumber ?? "",
                    consumer.contexts.map(\.name).joined(separator: ", "), String(consumer.deadLetters ?? 0),
                    consumer.problem ?? "",
                ]
            }, to: &output)
        try table.writeCut(to: &output)
    }
}

extension ConsumerList {
    /// Writes the feeds, with the changes that are kept for each.
    func writeFeeds(to output: inout StandardOutput) throws {
        let rows = consumers.flatMap { consumer in
            consumer.contexts.compactMap { context in
                context.feed.map { feed in
                    [
                        consumer.store, "\(consumer.consumer)/\(context.name)", feed.state.rawValue,
                        String(feed.behind), feed.cursor.tokenNumber, feed.movedAt,
                        feed.processID.map { String($0) } ?? "",
                    ]
                }
            }
        }
        if rows.isEmpty { return }
        try output.writeLine("")
        var table = TextTable(["STORE", "FEED", "STATE", "KEPT", "ACKNOWLEDGED", "AT", "PROCESS"])
        try table.write(rows, to: &output)
    }
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}
