import CNats
import HistoryNATS
import PersistentHistory

/// Buffers messages for the thread that reads them.
final class NATSSubscription: StreamSubscription {
    /// libnats locks it.
    nonisolated(unsafe) private let pointer: OpaquePointer
    let subject: String
    private let used: UsedMessages

    init(_ pointer: OpaquePointer, _ subject: String, _ used: UsedMessages) {
        self.pointer = pointer
        self.subject = subject
        self.used = used
    }

    deinit { natsSubscription_Destroy(pointer) }

    /// Blocks until there is a message.
    ///
    /// - Throws: `NATSError`, with `isTimeout` if none arrived in time.
    func next(timeout: Duration) throws -> any StreamMessage {
        var message: OpaquePointer?
        try NATSConnection.check(
            "wait on \(subject)", natsSubscription_NextMsg(&message, pointer, timeout.limit))
        guard let message else { throw NATSError(call: "wait on \(subject)", reason: "no message") }
        return NATSMessage(message, used)
    }

    var hasMessages: Bool {
        var count: Int32 = 0
        return natsSubscription_GetPending(pointer, &count, nil) == NATS_OK && count > 0
    }
}

/// A received message.
final class NATSMessage: StreamMessage {
    private let pointer: OpaquePointer
    private let used: UsedMessages

    init(_ pointer: OpaquePointer, _ used: UsedMessages) {
        self.pointer = pointer
        self.used = used
    }

    deinit { used.add(pointer) }

    var reply: String { natsMsg_GetReply(pointer).map { String(cString: $0) } ?? "" }

    var subject: String { natsMsg_GetSubject(pointer).map { String(cString: $0) } ?? "" }

    var count: Int { Int(natsMsg_GetDataLength(pointer)) }

    func withBody<T>(_ read: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
        try read(
            UnsafeRawBufferPointer(start: natsMsg_GetData(pointer), count: Int(natsMsg_GetDataLength(pointer))))
    }

    func header(_ name: String) -> String? {
        var value: UnsafePointer<CChar>?
        guard natsMsgHeader_Get(pointer, name, &value) == NATS_OK else { return nil }
        return value.map { String(cString: $0) }
    }
}

/// Messages that are no longer needed.
///
/// libnats frees a message on its own thread, which it wakes up for that. On the path of a single commit, that
/// would take a processor from the threads that process it. Messages are therefore released in batches.
final class UsedMessages: Sendable {
    private static let most = 64
    private static let mostBytes = 64 << 10

    private struct Message: Sendable {
        nonisolated(unsafe) let pointer: OpaquePointer
    }

    private struct Content {
        var messages: [Message] = []
        var bytes = 0
    }

    private let content = Locked(Content())

    deinit { giveBack() }

    func add(_ message: OpaquePointer) {
        let isEnough = content.withLock { content in
            content.messages.append(Message(pointer: message))
            content.bytes += Int(natsMsg_GetDataLength(message))
            return content.messages.count >= Self.most || content.bytes >= Self.mostBytes
        }
        if isEnough { giveBack() }
    }

    func giveBack() {
        let messages = content.withLock { content in
            defer { content = Content() }
            return content.messages
        }
        for message in messages { natsMsg_Destroy(message.pointer) }
    }
}
