import DequeModule

/// The calls in flight to one coprocess, and what an answer, the clock or its end mean for them.
///
/// A pipe holds more than one request, so several calls may be in flight, but no more than
/// the window allows; the plugin answers them in order. The state is pure: its owner reads and
/// writes, and tells it of that.
struct CoprocessProtocol: Sendable {
    typealias Instant = SuspendingClock.Instant

    struct Window: Sendable {
        /// Requests that may be unanswered at once, and their bytes. One is always allowed.
        var calls = 64
        var bytes = 1 << 20
    }

    private struct Call {
        let id: Int64
        let size: Int
        /// The caller does not wait for the answer any more.
        var isAbandoned = false
    }

    private let window: Window
    private let timeout: Duration
    /// In the order in which they were sent, and so in the order of the answers.
    private var underWay: Deque<Call> = []
    private var bytesUnderWay = 0
    /// Never used twice, also not for the next process.
    private var lastID: Int64 = 0
    /// When the oldest became the oldest, or was sent, whichever was later.
    private var oldestSince: Instant?
    /// The last call that had been sent when one failed; nil once a later one has succeeded. So not
    /// a whole window of calls is made in vain each time where, say, the plugin's server is away.
    private var lastBeforeFailure: Int64?
    /// How long the call took that was answered last: from when it was sent, or from the answer before it where
    /// that came later.
    private(set) var lastCallTime: Duration = .zero
    /// Whether the process has answered anything that was asked.
    private(set) var hasAnswered = false

    init(window: Window = Window(), timeout: Duration) {
        self.window = window
        self.timeout = timeout
    }

    var isIdle: Bool { underWay.isEmpty }

    /// Whether a call waits for an answer.
    var isAwaited: Bool { underWay.contains { !$0.isAbandoned } }

    /// Whether one more call may be sent: after a failure a single one, until it succeeds.
    var hasRoom: Bool {
        isIdle || (lastBeforeFailure == nil && underWay.count < window.calls && bytesUnderWay < window.bytes)
    }

    /// When the oldest call has waited for too long.
    var deadline: Instant? { oldestSince.map { $0.advanced(by: timeout) } }

    /// A call is sent, under the id that `request` is given; it tells the request's size.
    mutating func send(at now: @autoclosure () -> Instant, request: (_ id: Int64) -> Int) {
        lastID += 1
        let call = Call(id: lastID, size: request(lastID))
        if isIdle { oldestSince = now() }
        underWay.append(call)
        bytesUnderWay += call.size
    }

    /// The calls in flight are no longer needed. The plugin answers them anyway.
    mutating func abandon() {
        for index in underWay.indices { underWay[index].isAbandoned = true }
    }

    enum Reception: Sendable, Hashable {
        /// For the caller.
        case deliver(PluginAnswer.Outcome)
        /// No call waits for it.
        case drop
        /// The plugin has lost step, and is to be killed.
        case nonsense(String)
    }

    /// An answer came; nil is a line that is none.
    mutating func receive(_ answer: PluginAnswer?, at now: Instant) -> Reception {
        guard let answer else { return .nonsense("wrote a line that is not a JSON-RPC response") }
        guard let oldest = underWay.first else {
            return .nonsense("wrote an answer without a request")
        }
        guard answer.id == oldest.id else {
            let given = answer.id.map { "with the id \($0)" } ?? "without an id"
            var text = "answered \(given) where \(oldest.id) was due"
            switch answer.outcome {
            case .refused(let message), .methodUnknown(let message): text += " (\"\(message.excerpt)\")"
            default: break
            }
            return .nonsense(text)
        }
        underWay.removeFirst()
        bytesUnderWay -= oldest.size
        if let oldestSince { lastCallTime = oldestSince.duration(to: now) }
        oldestSince = isIdle ? nil : now
        hasAnswered = true
        if oldest.isAbandoned { return .drop }
        if case .refused = answer.outcome {
            lastBeforeFailure = lastID
        } else if let last = lastBeforeFailure, oldest.id > last {
            lastBeforeFailure = nil
        }
        return .deliver(answer.outcome)
    }

    func isOverdue(at now: Instant) -> Bool {
        deadline.map { $0 <= now } ?? false
    }

    /// The process is gone, and all calls in flight with it.
    mutating func reset() {
        if isAwaited { lastBeforeFailure = lastID }
        underWay.removeAll(keepingCapacity: true)
        bytesUnderWay = 0
        oldestSince = nil
        hasAnswered = false
    }
}
