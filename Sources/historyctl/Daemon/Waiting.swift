import ArgumentParser
import HistoryControl
import NIOCore

struct Wait: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Wait until a consumer is done with a transaction.",
        discussion: """
            A writer takes history_token() after its commit, and reads what it has written once a consumer is \
            past it: after this, the hooks have had the transaction and replicas show it. Status 75 where \
            that does not come to pass in time.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Option(help: "The consumer.")
    var consumer: String
    @Option(help: "The transaction's token.")
    var token: String
    @Option(help: "The consumer's store, where several have one of that name.")
    var store: String?
    @Option(
        help: ArgumentHelp("Seconds, or 500ms, 5s, 3m; without it, as long as it takes.", valueName: "duration")
    )
    var timeout: String?

    func run() async throws {
        let request = WaitRequest(store: store, consumer: consumer, token: token, timeout: timeout)
        try await daemon.ask(.wait(request), WaitReport.self) { try $1.writeLine($0.cursor) }
    }
}

struct Follow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print transactions as they are committed, as JSON, one a line.",
        discussion: """
            Ends when it is interrupted, or with an error when the daemon does. To go on where it was, give \
            the last line's token as --after.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Option(help: "The store, where there are several.")
    var store: String?
    @Option(help: "Only what this consumer is told of.")
    var consumer: String?
    @Option(help: ArgumentHelp("Begin after this token's transaction.", valueName: "token"))
    var after: String?

    func run() async throws {
        var output = StandardOutput()
        var tail: [UInt8] = []
        let request = FollowRequest(store: store, consumer: consumer, after: after)
        try await daemon.client.send(.follow(request)) { bytes in
            tail += bytes.readableBytesView
            guard let end = tail.lastIndex(of: UInt8(ascii: "\n")) else { return }
            let lines = tail[...end]
            tail.removeSubrange(...end)
            // An error can only be the last line.
            let start = lines.dropLast().lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? lines.startIndex
            if lines[start...].starts(with: #"{"error":"#.utf8) {
                try output.write(lines[..<start])
                try output.flush()
                throw try ControlJSON.read(ControlFailure.self, from: Array(lines[start...])).error
            }
            try output.write(lines)
            try output.flush()
        }
    }
}
