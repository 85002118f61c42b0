import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryControl
import HistoryDaemon
import PersistentHistory

/// Queries the running program on its socket.
struct StatusClient: ParsableArguments {
    @Option(help: "The socket of the program.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    @Option(
        help: ArgumentHelp(
            "How long the answer may take: seconds, or 500ms, 5s, 3m. Status 75 after that.",
            discussion: "By default 30s; health 5s.", valueName: "duration"),
        transform: Self.duration)
    var timeout: Duration?

    private static func duration(_ text: String) throws -> Duration {
        guard let duration = Duration(configured: text) else {
            throw ValidationError("\"\(text)\" is not a duration: seconds, or 500ms, 5s, 3m, 2h, 7d.")
        }
        return duration
    }

    /// - Throws: `ExitCode` after the reason was printed.
    func ask(_ command: ControlCommand) throws -> [UInt8] {
        do {
            return try answer(to: command, within: .seconds(30))
        } catch let error as ControlClient.Unanswered {
            throw Self.failed(error, .temporary)
        }
    }

    /// - Parameter limit: The default timeout.
    /// - Throws: `ControlClient.Unanswered`; `ExitCode` after any other reason was printed.
    func answer(to command: ControlCommand, within limit: Duration) throws -> [UInt8] {
        let client = ControlClient(
            socketPath: socket, timeout: timeout ?? limit, program: "historyd-nats")
        let answer = Locked<[UInt8]>([])
        do {
            try HistoryLoop.carry {
                let bytes = try await client.send(command)
                answer.withLock { $0 = bytes }
            }
        } catch let error as ControlClient.Unreachable {
            throw Self.failed(error, error.isForbidden ? .noPermission : .unavailable)
        } catch let error as ControlError {
            switch error.code {
            case .notPermitted: throw Self.failed(error, .noPermission)
            case .reloadRefused: throw Self.failed(error, .configuration)
            default: throw Self.failed(error, .temporary)
            }
        }
        return answer.withLock(\.self)
    }

    private static func failed(_ error: any Error, _ status: ExitStatus) -> ExitCode {
        FileHandle.standardError.write(Data("\(error)\n".utf8))
        return ExitCode(status.rawValue)
    }
}
