import CSimulation
import HistoryNATS
import PersistentHistory

/// A connection to the scripted server: what is on its way takes time, and is lost with it.
final class ScriptedConnection: StreamConnection {
    private let server: ScriptedServer
    private let wakeUp: WorkerSignal
    private let state = Locked(State())
    /// Ends the wait for an answer.
    private let ended = TimedSemaphore()
    let receiving = Locked(LinkPace())
    let sending = Locked(LinkPace())

    private struct State: Sendable {
        var isOver = false
        var subscriptions: [ScriptedSubscription] = []
    }

    init(_ server: ScriptedServer, _ wakeUp: WorkerSignal) throws {
        (self.server, self.wakeUp) = (server, wakeUp)
        csimulation_sleep(1_000_000)
        guard server.add(self) else { throw NATSError(call: "connect", reason: "Connection refused") }
    }

    var maximumPayload: Int { server.content.withLock(\.maximumPayload) }
    var refusal: String { "" }
    var isOver: Bool { state.withLock(\.isOver) }

    func close() { end() }

    /// What is on its way is lost.
    func end() {
        let subscriptions = state.withLock { state -> [ScriptedSubscription]? in
            defer { state.isOver = true }
            return state.isOver ? nil : state.subscriptions
        }
        guard let subscriptions else { return }
        server.remove(self)
        for subscription in subscriptions { subscription.end() }
        ended.signal()
        wakeUp.signal(.disconnected)
    }

    private func check(_ call: String) throws {
        if isOver { throw NATSError(call: call, reason: "Connection Closed") }
    }

    func publish(
        _ subject: String, reply: String?, fields: [(name: String, value: String)], _ body: [UInt8]
    ) throws {
        csimulation_sleep(20_000)
        // A server closes the connection of who sends more.
        let headers = fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        if headers + body.count > maximumPayload { end() }
        try check("publish on \(subject)")
        server.take(ScriptedMessage(subject, reply: reply ?? "", fields, body), from: self)
        try check("publish on \(subject)")
    }

    func request(_ subject: String, _ body: [UInt8], timeout: Duration) throws -> [UInt8] {
        csimulation_sleep(500_000)
        try check("request \(subject)")
        let answer = server.answer(subject, body, to: self)
        try check("request \(subject)")
        if let answer { return answer }
        ended.wait(atMost: timeout)
        try check("request \(subject)")
        throw NATSError(call: "request \(subject)", reason: "Timeout", isTimeout: true)
    }

    func inbox() throws -> String { "_INBOX.\(server.nextNumber())" }

    func subscribe(_ subject: String) throws -> any StreamSubscription {
        let subscription = ScriptedSubscription(subject, server)
        let isOver = state.withLock { state in
            state.subscriptions.append(subscription)
            return state.isOver
        }
        if isOver { subscription.end() }
        return subscription
    }

    /// Delivers a message after some time.
    func deliver(_ message: ScriptedMessage, to inbox: String, after delay: Int64) {
        let found = state.withLock { $0.isOver ? nil : $0.subscriptions.first { $0.takes(inbox) } }
        found?.deliver(message, at: csimulation_now() + delay)
    }
}

/// The messages of a subscription, in order.
final class ScriptedSubscription: StreamSubscription {
    private struct State: Sendable {
        var messages: [(time: Int64, message: ScriptedMessage)] = []
        var isOver = false
    }

    let subject: String
    private let server: ScriptedServer
    private let state = Locked(State())
    private let semaphore = TimedSemaphore()

    init(_ subject: String, _ server: ScriptedServer) { (self.subject, self.server) = (subject, server) }

    func takes(_ inbox: String) -> Bool {
        subject.hasSuffix("*") ? inbox.hasPrefix(subject.dropLast()) : inbox == subject
    }

    func deliver(_ message: ScriptedMessage, at time: Int64) {
        state.withLock { state in
            // One does not overtake another.
            state.messages.append((max(time, state.messages.last?.time ?? 0), message))
        }
        semaphore.signal()
    }

    func end() {
        state.withLock { $0.isOver = true }
        semaphore.signal()
    }

    var hasMessages: Bool {
        state.withLock { state in state.messages.first.map { $0.time <= csimulation_now() } ?? false }
    }

    func next(timeout: Duration) throws -> any StreamMessage {
        let end = csimulation_now() + timeout.milliseconds * 1_000_000
        while true {
            server.tick(subject)
            let now = csimulation_now()
            let (message, next, isOver) = state.withLock { state -> (ScriptedMessage?, Int64, Bool) in
                guard !state.isOver, let first = state.messages.first else { return (nil, .max, state.isOver) }
                guard first.time <= now else { return (nil, first.time, false) }
                state.messages.removeFirst()
                return (first.message, 0, false)
            }
            if isOver { throw NATSError(call: "wait on \(subject)", reason: "Connection Closed") }
            if let message { return message }
            if now >= end { throw NATSError(call: "wait on \(subject)", reason: "Timeout", isTimeout: true) }
            let wake = min(end, next, server.nextWord(on: subject))
            semaphore.wait(atMost: .nanoseconds(max(1000, wake - now)))
        }
    }
}

final class ScriptedMessage: StreamMessage, Sendable {
    let subject: String
    let reply: String
    let fields: [(name: String, value: String)]
    let content: [UInt8]

    init(_ subject: String, reply: String = "", _ fields: [(name: String, value: String)], _ content: [UInt8]) {
        (self.subject, self.reply, self.fields, self.content) = (subject, reply, fields, content)
    }

    var count: Int { content.count }
    func header(_ name: String) -> String? { fields.first { $0.name == name }?.value }
    func withBody<T>(_ read: (UnsafeRawBufferPointer) throws -> T) rethrows -> T {
        try content.withUnsafeBytes(read)
    }
}
