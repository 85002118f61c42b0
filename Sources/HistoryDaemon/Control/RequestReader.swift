import HistoryControl
import NIOCore
import NIOHTTP1

/// Assembles a connection's one request from its parts.
struct RequestReader {
    /// A command with its body, or what is wrong with the request.
    typealias Request = Result<(command: ControlCommand, body: [UInt8]), ControlError>

    private enum State {
        case awaitingHead
        case awaitingEnd(Result<ControlCommand, ControlError>, body: [UInt8])
        case complete
    }

    /// How many parts may follow the request, unread: a client that keeps sending loses the connection.
    static let mostIgnored = 256

    let limit: Int
    private var state = State.awaitingHead
    private var ignored = 0

    /// - Parameter limit: How many bytes a body may have.
    init(limit: Int) { self.limit = limit }

    /// Whether the client has sent more after the request than it can have reason to.
    var isFlooded: Bool { ignored > Self.mostIgnored }

    private var tooLarge: ControlError { ControlError(.tooLarge, "The body has more than \(limit) bytes.") }

    /// Returns the request once: with its last part, or as soon as its body is too large. It ignores what
    /// follows, another request for instance.
    mutating func take(_ part: HTTPServerRequestPart) -> Request? {
        switch (state, part) {
        case (.awaitingHead, .head(let head)):
            // Reported at once, however slowly the body would arrive.
            if let length = head.headers.first(name: "Content-Length"), Int(length).map({ $0 > limit }) ?? true
            {
                state = .complete
                return .failure(tooLarge)
            }
            let command = Result { () throws(ControlError) in
                try ControlCommand(method: head.method.rawValue, target: head.uri)
            }
            state = .awaitingEnd(command, body: [])
        case (.awaitingEnd(let command, var body), .body(let bytes)):
            guard bytes.readableBytes <= limit - body.count else {
                state = .complete
                return .failure(tooLarge)
            }
            // A second reference would make the append copy the body.
            state = .complete
            body += bytes.readableBytesView
            state = .awaitingEnd(command, body: body)
        case (.awaitingEnd(let command, let body), .end):
            state = .complete
            return command.map { ($0, body) }
        case (.awaitingHead, _), (.awaitingEnd, .head), (.complete, _): ignored += 1
        }
        return nil
    }
}
