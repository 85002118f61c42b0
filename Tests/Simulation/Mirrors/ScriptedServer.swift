import CSimulation
import PersistentHistory

/// A JetStream as publisher and follower know it, in memory. What goes wrong is drawn from the seed.
final class ScriptedServer: Sendable {
    /// What becomes of a call.
    enum Fate: CaseIterable, Sendable {
        /// The connection is lost before it, or right after its effect.
        case lostBefore, lostAfter
        case unanswered, late, garbled, refused
    }

    /// Each with its chance of 256.
    struct Trouble: Sendable {
        var calls = 0
        var foreign = 0
        var words = 0
        /// No snapshot fits.
        var isFull = false
        var isDown = false
    }

    struct Content: Sendable {
        var streams: [String: ScriptedStream] = [:]
        var consumers: [String: ScriptedConsumer] = [:]
        var connections: [ScriptedConnection] = []
        var trouble = Trouble()
        /// As servers from 2.10 on do.
        var saysCompleted = false
        var maximumPayload = 1 << 20
        var number = 0
        /// Messages of publishers that do not continue the one before them.
        var unchained: [String] = []
    }

    let content = Locked(Content())

    func nextNumber() -> Int {
        content.withLock { content in
            content.number += 1
            return content.number
        }
    }

    func add(_ connection: ScriptedConnection) -> Bool {
        content.withLock { content in
            if content.trouble.isDown { return false }
            content.connections.append(connection)
            return true
        }
    }

    func remove(_ connection: ScriptedConnection) {
        content.withLock { content in
            content.connections.removeAll { $0 === connection }
            for name in content.consumers.keys {
                content.consumers[name]?.requests.removeAll { $0.connection === connection }
            }
        }
    }

    static func isDrawn(_ chance: Int) -> Bool { chance > 0 && Int(csimulation_random() & 255) < chance }
    static func draw(_ count: Int) -> Int { Int(csimulation_random() % UInt64(max(1, count))) }

    private func fate() -> Fate? {
        guard Self.isDrawn(content.withLock(\.trouble.calls)) else { return nil }
        return Fate.allCases[Self.draw(Fate.allCases.count)]
    }

    // MARK: Messages

    /// Takes a message that a client has published.
    func take(_ message: ScriptedMessage, from connection: ScriptedConnection) {
        let fate = fate()
        if fate == .lostBefore { return connection.end() }
        content.withLock { content in
            if let name = message.subject.split(separator: ".").last,
                message.subject.hasPrefix("$JS.API.CONSUMER.MSG.NEXT.")
            {
                content.pull(String(name), message, connection)
            } else {
                content.store(message, connection, fate)
            }
        }
        if fate == .lostAfter { connection.end() }
    }

    /// - Returns: Nil if there is no answer.
    func answer(_ subject: String, _ body: [UInt8], to connection: ScriptedConnection) -> [UInt8]? {
        let fate = fate()
        switch fate {
        case .lostBefore:
            connection.end()
            return nil
        case .refused:
            return Array(#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#.utf8)
        default: break
        }
        let asked = JSONReader.read(body).root?.object ?? [:]
        let answer = content.withLock { $0.answer(subject, asked) }
        switch fate {
        case .lostAfter: connection.end()
        case .unanswered: return nil
        case .late: csimulation_sleep(3_000_000_000)
        case .garbled: return Array("}{".utf8)
        default: break
        }
        return answer
    }

    // MARK: Words

    /// Says what is due about the requests of an inbox.
    func tick(_ inbox: String) {
        content.withLock { content in
            for name in content.consumers.keys { content.sayWhatIsDue(name, inbox) }
        }
    }

    func nextWord(on inbox: String) -> Int64 {
        content.withLock { content in
            content.consumers.values.flatMap(\.requests).filter { $0.isOf(inbox) }.map(\.due).min() ?? .max
        }
    }

    // MARK: What the script does

    func loseConnections() {
        for connection in content.withLock(\.connections) { connection.end() }
    }

    /// What a client publishes that is none of historyd's.
    func publishForeign(to stream: String) { content.withLock { $0.storeForeign(in: stream) } }

    func deleteStream(_ name: String, isSaid: Bool) {
        content.withLock { content in
            content.streams[name] = nil
            for (consumer, found) in content.consumers where found.stream == name {
                if isSaid {
                    for request in found.requests { request.say("409", "Consumer Deleted") }
                }
                content.consumers[consumer] = nil
            }
        }
    }

    func change(_ stream: String, _ body: (inout ScriptedStream) -> Void) {
        content.withLock { content in
            if content.streams[stream] != nil, var changed = content.streams[stream] {
                body(&changed)
                content.streams[stream] = changed
            }
        }
    }

    /// The server is what a copy of it was, and knows no consumer.
    func restore(_ streams: [String: ScriptedStream]) {
        content.withLock { ($0.streams, $0.consumers) = (streams, [:]) }
        loseConnections()
    }
}

/// A pull consumer, and the requests that are open.
struct ScriptedConsumer: Sendable {
    struct Request: Sendable {
        let connection: ScriptedConnection
        let inbox: String
        var messages: Int
        var bytes: Int
        let expires: Int64
        /// 0 for none.
        let heartbeat: Int64
        var nextBeat: Int64

        /// Whether it is read by a subscription.
        func isOf(_ subject: String) -> Bool { subject.hasSuffix("*") && inbox.hasPrefix(subject.dropLast()) }
        var due: Int64 { min(expires, nextBeat) }

        func say(_ code: String, _ description: String) {
            connection.deliver(
                ScriptedMessage(inbox, [("Status", code), ("Description", description)], []), to: inbox,
                after: 200_000)
        }
    }

    let stream: String
    let filter: String?
    var next: UInt64
    var count = 0
    var requests: [Request] = []
}
