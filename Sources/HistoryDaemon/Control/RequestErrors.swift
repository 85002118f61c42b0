import HistoryControl
import NIOCore
import NIOHTTP1

/// Answers a request that is not HTTP, or whose head is too large: once, and not behind another answer.
final class RequestErrors: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var hasAnswered = false

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The decoder closes the connection as soon as this returns.
        if error is HTTPParserError, !hasAnswered { answer(context, error) }
        context.fireErrorCaught(error)
    }

    private func answer(_ context: ChannelHandlerContext, _ error: any Error) {
        hasAnswered = true
        let failure = ControlFailure(ControlError(.badRequest, "The request cannot be read as HTTP: \(error)."))
        // Nothing of it can fail to be encoded.
        guard let bytes = try? ControlJSON.bytes(failure) else { return }
        let headers: HTTPHeaders = [
            "Content-Type": "application/json", "Connection": "close", "Content-Length": String(bytes.count),
        ]
        let head = HTTPResponseHead(version: .http1_1, status: .badRequest, headers: headers)
        context.write(Self.wrapOutboundOut(.head(head)), promise: nil)
        context.write(Self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil)), promise: nil)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .head = Self.unwrapOutboundIn(data) { hasAnswered = true }
        context.write(data, promise: promise)
    }
}
