import HistoryControl
import NIOCore
import NIOHTTP1

/// Puts a connection's one request together from its parts.
struct RequestReader {
    /// A command with its body, or what is wrong with the request.
    typealias Request = Result<(command: ControlCommand, body: [UInt8]), ControlError>

    private enum State {
        case awaitingHead
        case awaitingEnd(Result<ControlCommand, ControlError>, body: [UInt8])
        case complete
    }

    /// How many parts may follow the request, unread: a client that sends on and on loses the connection.
    static let mostIgnored = 256

    let limit: Int
    private var state = State.awaitingHead
    private var ignored = 0

    /// - Parameter limit: How many bytes a body may have.
    init(limit: Int) { self.limit = limit }

    /// More was sent after the request than a client can have reason to.
    var isFlooded: Bool { ignored > Self.mostIgnored }

    private var tooLarge: ControlError { ControlError(.tooLarge, "The body has more than \(limit) bytes.") }

    /// Gives the request once: with its last part, or as soon as its body is too large. What comes after
    /// it, another request for instance, is ignored.
    mutating func take(_ part: HTTPServerRequestPart) -> Request? {
        switch (state, part) {
        case (.awaitingHead, .head(let head)):
            // Said at once, however slowly the body would come.
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
            // Not held twice, which would copy it.
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
