import HistoryControl
import NIOCore
import NIOHTTP1

/// The response to one request: one message, or a stream of lines.
final class ControlResponse {
    typealias Writer = NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>

    private let writer: Writer
    private let channel: any Channel
    private(set) var hasBegun = false
    private var deadline: Scheduled<Void>?

    init(_ writer: Writer, of channel: any Channel) {
        self.writer = writer
        self.channel = channel
    }

    deinit { deadline?.cancel() }

    func send(_ message: some Encodable, status: HTTPResponseStatus = .ok) async throws {
        try await send(try ControlJSON.bytes(message), type: "application/json", status: status)
    }

    func send(_ bytes: [UInt8], type: String, status: HTTPResponseStatus = .ok) async throws {
        setDeadline()
        try await begin(status, type: type, length: bytes.count)
        try await write(bytes)
    }

    /// Sends an error: as its last line if the stream has started.
    func send(_ error: ControlError) async throws {
        if hasBegun {
            try await write(try ControlJSON.bytes(ControlFailure(error)))
        } else {
            try await send(ControlFailure(error), status: HTTPResponseStatus(statusCode: error.httpStatus))
        }
    }

    /// Starts a stream of JSON, one message a line.
    func beginLines() async throws { try await begin(.ok, type: "application/x-ndjson", length: nil) }

    func write(_ bytes: [UInt8]) async throws {
        try await writer.write(.body(.byteBuffer(ByteBuffer(bytes: bytes))))
    }

    /// Returns when the whole response has been written, so that the connection may be closed: the writer alone
    /// would return earlier. A cancelled response is left without an end, so that no client takes it for
    /// complete.
    func end() async throws {
        try Task.checkCancellation()
        setDeadline()
        try await withTaskCancellationHandler { [channel] in
            try await channel.writeAndFlush(HTTPServerResponsePart.end(nil)).get()
        } onCancel: { [channel] in
            // A client that does not read must not keep the daemon from stopping.
            channel.close(promise: nil)
        }
    }

    /// A client that does not read its response loses the connection. A stream waits for its reader.
    private func setDeadline() {
        deadline?.cancel()
        deadline = ControlConnection.deadline(of: channel)
    }

    private func begin(_ status: HTTPResponseStatus, type: String, length: Int?) async throws {
        hasBegun = true
        var headers: HTTPHeaders = ["Content-Type": type, "Connection": "close"]
        if let length { headers.add(name: "Content-Length", value: String(length)) }
        try await writer.write(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers)))
    }
}
