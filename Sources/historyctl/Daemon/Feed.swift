import ArgumentParser
import HistoryControl

struct Feed: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feed",
        abstract: "Print the transactions of a feed, as JSON, one in each line.",
        discussion: """
            Ends when it is interrupted, or with an error when the daemon ends. Without --acknowledge, the \
            feed keeps its position and sends no more than its window.
            """)

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: StreamOptions
    @Argument(help: "The consumer.", completion: .consumers)
    var consumer: String
    @Argument(help: "Its context, of kind feed.", completion: .contexts)
    var context: String
    @Option(help: "The consumer's store, if several have a consumer of that name.", completion: .stores)
    var store: String?
    @Flag(help: "Acknowledge what was printed.")
    var acknowledge = false
    @Option(
        help: ArgumentHelp(
            "Print nothing: acknowledge everything up to this token's transaction.", valueName: "token"))
    var through: String?

    func validate() throws {
        if acknowledge, through != nil {
            throw ValidationError("--acknowledge and --through cannot be used together.")
        }
    }

    func run() async throws {
        let feed = FeedRequest(store: store, consumer: consumer, context: context)
        let asking = connection.client(timeout: TimeoutArgument.byDefault)
        if let through {
            let answer = try ControlJSON.read(
                PositionReport.self, from: try await asking.send(.acknowledge(feed, token: through)))
            var output = StandardOutput()
            try output.writeLine(answer.cursor)
            return try output.flush()
        }
        try await connection.client(timeout: nil).printLines(
            of: .feed(feed),
            printed: { line in
                guard acknowledge, let token = try ControlJSON.read(Line.self, from: Array(line)).done else {
                    return
                }
                _ = try await asking.send(.acknowledge(feed, token: token))
            })
    }

    /// The part of a line that is needed to acknowledge it.
    private struct Line: Decodable {
        struct Expired: Decodable { let after: String }
        struct Part: Decodable { let last: Bool }

        let token: String?
        let part: Part?
        let expired: Expired?

        var done: String? { expired?.after ?? (part?.last ?? true ? token : nil) }
    }
}
