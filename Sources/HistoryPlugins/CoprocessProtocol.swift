import DequeModule
import PersistentHistory

/// The calls in flight to one coprocess, and what an answer, a timeout or the end of the process means for
/// them.
///
/// A pipe holds more than one request, so several calls may be in flight, but no more than the window allows;
/// the plugin answers them in order. This type does no input or output: its owner reads and writes, and reports
/// the events.
struct CoprocessProtocol: Sendable {
    /// A time of the clock that stops while the machine is suspended. (`SuspendingClock.Instant` is opaque:
    /// each use of one takes several calls.)
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
        /// The maximum of unanswered requests, and of their bytes. One request is always allowed. More bytes
        /// would only leave the processor's caches before they reach the pipe.
        var calls = 64
        var bytes = 1 << 18
    }

    private struct Call {
        let id: Int64
        let size: Int
        /// Whether the caller no longer waits for the answer.
        var isAbandoned = false
    }

    private let window: Window
    private let timeout: Duration
    /// In the order of sending, and therefore of the answers.
    private var underWay: Deque<Call> = []
    private var bytesUnderWay = 0
    /// Never used twice, not even for the next process.
    private var lastID: Int64 = 0
    /// When the oldest call became the oldest, or was sent, whichever was later.
    private var oldestSince: Instant?
    /// The last call that had been sent when one failed; nil once a later one has succeeded. It keeps the
    /// protocol from sending a whole window of calls in vain each time while, say, the plugin's server is
    /// unavailable.
    private var lastBeforeFailure: Int64?
    /// How many microseconds the last answered call took: from when it was sent, or from the previous answer if
    /// that came later.
    private(set) var lastCallTime: Int64 = 0
    /// Whether the process has answered any request.
    private(set) var hasAnswered = false

    init(window: Window = Window(), timeout: Duration) {
        self.window = window
        self.timeout = timeout
    }

    var isIdle: Bool { underWay.isEmpty }

    /// The id of the next call.
    var nextID: Int64 { lastID + 1 }

    /// Whether a caller waits for an answer.
    var isAwaited: Bool { underWay.contains { !$0.isAbandoned } }

    /// Whether another call may be sent: after a failure only a single one, until it succeeds.
    var hasRoom: Bool {
        isIdle || (lastBeforeFailure == nil && underWay.count < window.calls && bytesUnderWay < window.bytes)
    }

    /// When the oldest call times out.
    var deadline: Instant? { oldestSince.map { $0.advanced(by: timeout) } }

    /// Records a call. `request` writes it under the given id, and returns its size.
    mutating func send(at now: @autoclosure () -> Instant, request: (_ id: Int64) -> Int) {
        lastID = nextID
        let call = Call(id: lastID, size: request(lastID))
        if isIdle { oldestSince = now() }
        underWay.append(call)
        bytesUnderWay += call.size
    }

    /// Abandons the calls in flight. The plugin answers them anyway.
    mutating func abandon() {
        for index in underWay.indices { underWay[index].isAbandoned = true }
    }

    enum Reception: Sendable, Hashable {
        /// For the caller.
        case deliver(PluginAnswer.Outcome)
        /// No caller waits for it.
        case drop
        /// The plugin has lost synchronization, and must be killed.
        case nonsense(String)
    }

    /// Takes an answer; nil stands for a line that is not an answer.
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

    /// Takes the most common answer, `.null`, if the id is that of the oldest call.
    ///
    /// - Returns: Whether a caller waits for it; nil if nothing was taken.
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

    /// Forgets the process and all calls in flight.
    mutating func reset() {
        if isAwaited { lastBeforeFailure = lastID }
        underWay.removeAll(keepingCapacity: true)
        bytesUnderWay = 0
        oldestSince = nil
        hasAnswered = false
    }
}
