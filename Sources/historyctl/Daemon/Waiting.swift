import ArgumentParser
import HistoryControl
import PersistentHistory

struct Wait: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until a consumer has processed a transaction.",
        discussion: """
            A writer calls history_token() after its commit, and waits for that token. When this command \
            returns, the consumer's hooks have been called and its replicas show the transaction. Status 75 \
            after the timeout.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Option(help: "The consumer.")
    var consumer: String
    @Option(help: "The transaction's token.")
    var token: String
    @Option(help: "The consumer's store, if several have a consumer of that name.")
    var store: String?

    func run() async throws {
        let timeout = try daemon.limit.timeout ?? TimeoutArgument("30s")
        try await daemon.ask(
            .wait(consumer: consumer, token: token, store: store, timeout: timeout.text), PositionReport.self,
            by: daemon.client(timeout: timeout.duration + TimeoutOptions.grace)
        ) { try $1.writeLine($0.cursor) }
    }
}

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

    func run() async throws { try await connection.client.printLines(of: following.command) }
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
    @Option(help: "The store, if there are several.")
    var store: String?
    @Option(help: "Only transactions that are delivered to this consumer.")
    var consumer: String?
    @Option(help: ArgumentHelp("Begin after this token's transaction.", valueName: "token"))
    var after: String?

    var command: ControlCommand { .follow(store: store, consumer: consumer, after: after) }
}

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
    @Argument(help: "The consumer.")
    var consumer: String
    @Argument(help: "Its context, of kind feed.")
    var context: String
    @Option(help: "The consumer's store, if several have a consumer of that name.")
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
        let asking = connection.client(timeout: TimeoutOptions.defaultTimeout)
        if let through {
            let answer = try ControlJSON.read(
                PositionReport.self, from: try await asking.send(.acknowledge(feed, token: through)))
            var output = StandardOutput()
            try output.writeLine(answer.cursor)
            return try output.flush()
        }
        try await connection.client.printLines(
            of: .feed(feed),
            printed: { line in
                guard acknowledge, let token = try ControlJSON.read(Line.self, from: Array(line)).done else {
                    return
                }
                _ = try await asking.send(.acknowledge(feed, token: token))
            })
    }

    /// The part of a line that says what to acknowledge.
    private struct Line: Decodable {
        struct Expired: Decodable { let after: String }
        struct Part: Decodable { let last: Bool }

        let token: String?
        let part: Part?
        let expired: Expired?

        var done: String? { expired?.after ?? (part?.last ?? true ? token : nil) }
    }
}

extension ControlClient {
    /// Prints an answer that is a stream of lines, piece by piece as it comes.
    ///
    /// - Parameters:
    ///   - write: Writes a line; by default as it came.
    ///   - printed: Called with the last line of each piece.
    /// - Throws: The `ControlError` that the stream breaks off with.
    func printLines(
        of command: ControlCommand,
        write: (ArraySlice<UInt8>, inout StandardOutput) throws -> Void = { line, output in
            try output.write(line)
            try output.write(CollectionOfOne(UInt8(ascii: "\n")))
        },
        printed: (ArraySlice<UInt8>) async throws -> Void = { _ in }
    ) async throws {
        var splitter = LineSplitter()
        try await send(command) { bytes in
            var bytes = bytes
            var output = StandardOutput()
            var last: ArraySlice<UInt8>?
            var failure: ControlError?
            while let (line, _) = splitter.next(&bytes) {
                if line.isEmpty { continue }
                // It can only be the last line.
                failure = try ControlFailure.error(in: line)
                if failure != nil { break }
                try write(line, &output)
                last = line
            }
            try output.flush()
            if let last { try await printed(last) }
            if let failure { throw failure }
        }
    }
}
