import DequeModule
import PersistentHistory

/// The calls in flight to one coprocess, and what an answer, the clock or its end mean for them.
///
/// A pipe holds more than one request, so several calls may be in flight, but no more than
/// the window allows; the plugin answers them in order. The state is pure: its owner reads and
/// writes, and tells it of that.
struct CoprocessProtocol: Sendable {
    /// A time of the clock that stands still while the machine sleeps. (`SuspendingClock.Instant` is opaque: each
    /// use of one takes several calls.)
    struct Instant: Sendable, Comparable {
        let nanoseconds: Int64

        static var now: Instant { Instant(nanoseconds: LoopClock.monotonicNanoseconds) }

        static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }

        func advanced(by duration: Duration) -> Instant {
            Instant(nanoseconds: nanoseconds + min(duration.microseconds, Int64.max / 4000) * 1000)
        }

        func duration(to other: Instant) -> Duration { .nanoseconds(other.nanoseconds - nanoseconds) }
    }

    struct Window: Sendable {
        /// Requests that may be unanswered at once, and their bytes. One is always allowed. More bytes would only leave
        /// the processor's caches before they come into the pipe.
        var calls = 64
        var bytes = 1 << 18
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
    /// How many microseconds the call took that was answered last: from when it was sent, or from the answer before it
    /// where that came later.
    private(set) var lastCallTime: Int64 = 0
    /// Whether the process has answered anything that was asked.
    private(set) var hasAnswered = false

    init(window: Window = Window(), timeout: Duration) {
        self.window = window
        self.timeout = timeout
    }

    var isIdle: Bool { underWay.isEmpty }

    /// What the next call is sent under.
    var nextID: Int64 { lastID + 1 }

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
        lastID = nextID
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
            case .refused(let message, _), .methodUnknown(let message): text += " (\"\(message.excerpt)\")"
            default: break
            }
            return .nonsense(text)
        }
        let isRefused = if case .refused = answer.outcome { true } else { false }
        return takeOldest(at: now, isRefused: isRefused) ? .deliver(answer.outcome) : .drop
    }

    /// The oldest call has the answer that most have, if the id is its own: `.null`.
    ///
    /// - Returns: Whether it is for the caller; nil if nothing was taken.
    mutating func receiveNull(_ id: Int64, at now: Instant) -> Bool? {
        underWay.first?.id == id ? takeOldest(at: now, isRefused: false) : nil
    }

    /// - Returns: Whether a caller waits for it.
    private mutating func takeOldest(at now: Instant, isRefused: Bool) -> Bool {
        let oldest = underWay.removeFirst()
        bytesUnderWay -= oldest.size
        if let oldestSince { lastCallTime = (now.nanoseconds - oldestSince.nanoseconds) / 1000 }
        oldestSince = isIdle ? nil : now
        hasAnswered = true
        if oldest.isAbandoned { return false }
        if isRefused {
            lastBeforeFailure = lastID
        } else if let last = lastBeforeFailure, oldest.id > last {
            lastBeforeFailure = nil
        }
        return true
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
