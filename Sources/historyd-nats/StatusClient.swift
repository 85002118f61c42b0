import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// Asks the running program on its socket.
struct StatusClient: ParsableArguments {
    @Option(help: "The socket of the program.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    @Option(
        help: ArgumentHelp(
            "How long the answer may take: seconds, or 500ms, 5s, 3m. Status 75 after that.",
            discussion: "By default 30s; health 5s.", valueName: "duration"),
        transform: Self.duration)
    var timeout: Duration?

    /// The program is there, and has not answered in time.
    struct Unanswered: Error, CustomStringConvertible {
        let description: String
    }

    private static func duration(_ text: String) throws -> Duration {
        guard let duration = Duration(configured: text) else {
            throw ValidationError("\"\(text)\" is not a duration: seconds, or 500ms, 5s, 3m, 2h, 7d.")
        }
        return duration
    }

    static func say(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }

    /// - Throws: `ExitCode` after the reason was printed.
    func ask(_ method: String, _ target: String) throws -> (status: Int, body: String) {
        do {
            return try answer(method, target, within: .seconds(30))
        } catch let error as Unanswered {
            Self.say("\(error)\n")
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
    }

    /// - Parameter limit: Where no other is given.
    /// - Throws: `Unanswered`; `ExitCode` after any other reason was printed.
    func answer(_ method: String, _ target: String, within limit: Duration) throws -> (
        status: Int, body: String
    ) {
        let limit = timeout ?? limit
        let end = ContinuousClock.now + limit
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        /// Limits the next call to the rest of the time.
        func limitNextCall() throws {
            let rest = end - .now
            guard rest > .zero else {
                throw Unanswered(
                    description:
                        "historyd-nats has not answered \(method) \(target) at \"\(socket)\" within \(limit.text)."
                )
            }
            UnixAddress.limitWaits(on: descriptor, to: rest)
        }
        // As many connections as may wait are waiting where it is stopped.
        try limitNextCall()
        guard descriptor >= 0, UnixAddress.with(socket, { connect(descriptor, $0, $1) }) == 0
        else {
            let number = errno
            try limitNextCall()
            Self.say(
                "historyd-nats does not answer at \"\(socket)\": \(String(cString: strerror(number))). Is it running?\n"
            )
            throw ExitCode(ExitStatus.unavailable.rawValue)
        }
        let request = Array("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        _ = send(descriptor, request, request.count, Int32(MSG_NOSIGNAL))
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        var count = 1
        while count > 0 {
            try limitNextCall()
            count = recv(descriptor, &buffer, buffer.count, 0)
            // Its time is up, which is found out above.
            if count < 0, errno == EAGAIN || errno == EINTR {
                count = 1
            } else {
                answer += buffer[..<max(0, count)]
            }
        }
        let text = String(decoding: answer, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n"),
            let status = text.split(separator: " ", maxSplits: 2).dropFirst().first.flatMap({ Int($0) })
        else {
            Self.say("The answer of \"\(socket)\" is not complete.\n")
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
        return (status, String(text[end.upperBound...]))
    }
}
