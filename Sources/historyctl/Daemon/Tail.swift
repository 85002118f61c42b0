import ArgumentParser
import HistoryBase
import HistoryConfiguration
import HistoryControl

struct Tail: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail",
        abstract: "Print transactions as they are committed, as text to read.",
        discussion: """
            Prints a line for each change with the time in UTC, in colour on a terminal unless NO_COLOR is set. Ends when it is \
            interrupted, or with an error when the daemon ends. For programs, use historyctl follow.
            """)

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var following: FollowOptions

    func run() async throws {
        let style = TerminalStyle.suitable
        try await connection.client(timeout: nil).printLines(of: following.command) { line, output in
            let transaction = try ControlJSON.read(Transaction.self, from: Array(line))
            for text in transaction.lines(style) { try output.writeLine(text) }
        }
    }

    /// The parts of a transaction that are shown.
    private struct Transaction: Decodable {
        struct Change: Decodable {
            let entityName: String
            let operation: String
            let objectIDURL: String
            let changedProperties: [String]?
        }

        let author: String?
        let context: String?
        let timestamp: String
        let changes: [Change]

        func lines(_ style: TerminalStyle) -> [String] {
            // 2026-01-07T10:30:00.250Z: only the time of day is shown; Z marks it as UTC.
            let time = String(timestamp.drop { $0 != "T" }.dropFirst())
            let origin = [author ?? "-", context].compactMap(\.self).joined(separator: "/").printable
            return changes.map { change in
                let colour: TerminalStyle.Style =
                    change.operation == "insert" ? .green : change.operation == "delete" ? .red : .yellow
                // x-history://<store>/<entity>/<key>: the key distinguishes rows.
                let key = change.objectIDURL.split(separator: "/").last.map { String($0) } ?? ""
                let columns = (change.changedProperties ?? []).joined(separator: ", ").printable
                let parts = [
                    style(time, .dim), style(origin, .cyan), style(change.operation, colour),
                    change.entityName.printable, key.printable, style(columns, .dim),
                ]
                return parts.filter { !$0.isEmpty }.joined(separator: " ")
            }
        }
    }
}
