import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// The daemon that a command talks to.
struct ConnectionOptions: ParsableArguments {
    @Option(help: .socket, completion: .file())
    var socket: String?

    /// - Parameter timeout: Nil for a stream, which has no time limit.
    func client(timeout: Duration?) -> ControlClient { ControlClient(socket: socket, timeout: timeout) }
}

/// The options of every command that sends the daemon a request and waits for one answer.
struct DaemonOptions: ParsableArguments {
    // Each nested option group doubles the time of ArgumentParser's debug checks, so this group contains none.
    @Option(help: .socket, completion: .file())
    var socket: String?

    @Option(help: .timeout, transform: TimeoutArgument.init)
    var timeout: TimeoutArgument?

    @Option(help: "A table for people, or JSON for programs.")
    var format = OutputFormat.table

    var client: ControlClient { client(timeout: timeout?.duration ?? TimeoutArgument.byDefault) }

    /// For a request that has its own limit.
    func client(timeout: Duration) -> ControlClient { ControlClient(socket: socket, timeout: timeout) }

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
    /// The error as lines of text.
    var lines: [String] { [message] + (problems ?? []) }
}

extension ControlClient {
    /// - Parameter socket: Nil selects the default socket.
    init(socket: String?, timeout: Duration?) {
        self.init(socketPath: socket ?? ControlSocket.client(), timeout: timeout)
    }
}

extension ArgumentHelp {
    static let socket = ArgumentHelp(
        "The daemon's control socket.",
        discussion: "By default, that of the user's own daemon or, if none runs, of the system's.",
        valueName: "path")

    static let timeout = ArgumentHelp(
        "How long the answer may take: seconds, or 500ms, 5s, 3m. Status 75 after that.",
        discussion: "By default 30s; health 5s, run 1m.", valueName: "duration")
}
