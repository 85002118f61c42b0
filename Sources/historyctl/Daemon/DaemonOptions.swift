import ArgumentParser
import Glibc
import HistoryConfiguration
import HistoryControl
import NIOCore

/// Which daemon a command talks to.
struct ConnectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The daemon's control socket.",
            discussion: "By default, that of the user's own daemon or, if none runs, of the system's.",
            valueName: "path"),
        completion: .file())
    var socket: String?

    var client: ControlClient {
        ControlClient(
            socketPath: socket
                ?? ControlSocket.client(environment: Environment.all, isListening: ControlSocket.isListening))
    }
}

/// What every command that talks to the daemon takes.
struct DaemonOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Option(help: "A table for people, or JSON for programs.")
    var format = OutputFormat.table

    var client: ControlClient { connection.client }

    /// Sends a request and writes the answer: as received for programs, or as `table` formats it.
    @discardableResult
    func ask<Answer: Decodable>(
        _ command: ControlCommand, _ type: Answer.Type, body: [UInt8] = [],
        table: (Answer, inout StandardOutput) throws -> Void
    ) async throws -> Answer {
        try show(try await client.send(command, body: body), type, table: table)
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

enum Environment {
    static var all: [String: String] {
        var variables: [String: String] = [:]
        for name in ["RUNTIME_DIRECTORY", "STATE_DIRECTORY", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"] {
            if let value = getenv(name) { variables[name] = String(cString: value) }
        }
        return variables
    }
}

extension ExitStatus {
    /// The exit status for an error that the daemon reports.
    init(_ code: ControlError.Code) {
        switch code {
        case .badRequest, .unknownRequest, .wrongMethod, .tooLarge, .ambiguous: self = .usage
        case .tokenInvalid, .tokenForeign, .tokenAhead, .tokenNotSent: self = .badData
        case .unknownStore, .unknownConsumer, .unknownContext, .unknownHook, .unknownPlugin, .unknownDeadLetter:
            self = .noInput
        case .tokenExpired, .stopping: self = .unavailable
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
