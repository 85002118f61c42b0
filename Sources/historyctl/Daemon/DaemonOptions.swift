import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// Which daemon a command talks to.
struct ConnectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The daemon's control socket.",
            discussion: "By default, that of the user's own daemon or, if none runs, of the system's.",
            valueName: "path"),
        completion: .file())
    var socket: String?

    /// What follows something waits for as long as nothing comes.
    var client: ControlClient { client(timeout: nil) }

    func client(timeout: Duration?) -> ControlClient {
        ControlClient(socketPath: socket ?? ControlSocket.client(), timeout: timeout)
    }
}

/// How long the daemon's answer may take.
struct TimeoutOptions: ParsableArguments {
    static let defaultTimeout: Duration = .seconds(30)
    /// For what the daemon itself limits: it answers when the time is up.
    static let grace: Duration = .seconds(5)

    @Option(
        help: ArgumentHelp(
            "How long the answer may take: seconds, or 500ms, 5s, 3m. Status 75 after that.",
            discussion: "By default 30s; health 5s, run 1m.", valueName: "duration"),
        transform: TimeoutArgument.init)
    var timeout: TimeoutArgument?

    func orDefault(_ duration: Duration = defaultTimeout) -> Duration { timeout?.duration ?? duration }
}

/// A duration with the text that it was given as.
struct TimeoutArgument {
    let text: String
    let duration: Duration

    init(_ text: String) throws {
        guard let duration = Duration(configured: text) else {
            throw ValidationError("\"\(text.printable)\" is not a duration: seconds, or 500ms, 5s, 3m, 2h, 7d.")
        }
        self.text = text
        self.duration = duration
    }
}

/// What every command takes that asks the daemon and waits for one answer.
struct DaemonOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var limit: TimeoutOptions

    @Option(help: "A table for people, or JSON for programs.")
    var format = OutputFormat.table

    var client: ControlClient { connection.client(timeout: limit.orDefault()) }

    /// For a request that has its own limit.
    func client(timeout: Duration) -> ControlClient { connection.client(timeout: timeout) }

    /// Sends a request and writes the answer: as received for programs, or as `table` formats it.
    @discardableResult
    func ask<Answer: Decodable>(
        _ command: ControlCommand, _ type: Answer.Type, body: [UInt8] = [], by client: ControlClient? = nil,
        table: (Answer, inout StandardOutput) throws -> Void
    ) async throws -> Answer {
        try show(try await (client ?? self.client).send(command, body: body), type, table: table)
    }

    /// Writes an answer.
    @discardableResult
    func show<Answer: Decodable>(
        _ bytes: [UInt8], _ type: Answer.Type, table: (Answer, inout StandardOutput) throws -> Void
    ) throws -> Answer {
        let answer = try ControlJSON.read(type, from: bytes)
        var output = StandardOutput()
        switch format {
        case .json: try output.write(bytes)
        case .table: try table(answer, &output)
        }
        try output.flush()
        return answer
    }
}

extension ExitStatus {
    /// The exit status for an error that the daemon reports.
    init(_ code: ControlError.Code) {
        switch code {
        case .badRequest, .unknownRequest, .wrongMethod, .tooLarge, .ambiguous, .tokenInvalid: self = .usage
        case .tokenForeign, .tokenAhead, .tokenNotSent: self = .badData
        case .unknownStore, .unknownConsumer, .unknownContext, .unknownHook, .unknownPlugin, .unknownDeadLetter:
            self = .noInput
        case .tokenExpired, .stopping: self = .unavailable
        case .noSpace: self = .inputOutput
        case .failed: self = .internalError
        case .paused, .feedInUse, .tooManyConnections, .storeNotOpen, .timedOut, .hookFailed: self = .temporary
        case .notPermitted: self = .noPermission
        case .reloadRefused, .manifestRefused: self = .configuration
        }
    }
}

extension ControlError {
    /// The error as lines to read.
    var lines: [String] { [message] + (problems ?? []) }
}
