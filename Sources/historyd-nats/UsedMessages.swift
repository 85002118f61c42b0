import CNats
import PersistentHistory

/// Messages that are no longer needed.
///
/// libnats frees a message on a thread of its own, which it wakes for that. On the way of a single commit, that would
/// take a processor from those that carry it on. So messages are given back together.
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
