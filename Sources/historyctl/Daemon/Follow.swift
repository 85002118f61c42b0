import ArgumentParser
import HistoryControl

struct Follow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "follow",
        abstract: "Print transactions as they are committed, as JSON, one in each line.",
        discussion: """
            Ends when it is interrupted, or with an error when the daemon ends. To continue later, pass the \
            token of the last line as --after.
            """)

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var following: FollowOptions
    @OptionGroup var output: StreamOptions

    func run() async throws {
        try await connection.client(timeout: nil).printLines(of: following.command)
    }
}

/// How a stream is printed.
struct StreamOptions: ParsableArguments {
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case json
    }

    @Option(help: "The only format: JSON, one object in each line.")
    var format = Format.json
}

struct FollowOptions: ParsableArguments {
    @Option(help: "The store, if there are several.", completion: .stores)
    var store: String?
    @Option(help: "Only transactions that are delivered to this consumer.", completion: .consumers)
    var consumer: String?
    @Option(help: ArgumentHelp("Begin after this token's transaction.", valueName: "token"))
    var after: String?

    var command: ControlCommand { .follow(store: store, consumer: consumer, after: after) }
}
