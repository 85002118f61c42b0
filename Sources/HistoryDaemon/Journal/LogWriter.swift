import PersistentHistory
import Synchronization

/// A record of a log.
protocol LogRecord: Sendable {
    /// How much memory it takes while it is pending.
    var size: Int { get }
    /// A record that reports how many others were dropped.
    static func dropped(_ count: Int) -> Self
}

/// Passes records to a log without blocking the caller.
///
/// Any log may block: journald does not read, a pipe is full, a terminal is stopped. A daemon must not block on
/// its own log. Records are therefore queued in order for a thread of their own, up to `limit` bytes. Further
/// records are dropped and counted, and one record reports their number as soon as the log accepts records
/// again.
final class LogWriter<Record: LogRecord>: Sendable {
    typealias Send = @Sendable (Record) -> Bool

    private enum Item: Sendable {
        case record(Record)
        /// Signaled when everything before it was passed on.
        case flushed(TimedSemaphore)
        case end
    }

    private let limit: Int
    private let queue = ThreadQueue<Item>()
    private let waitingBytes: Count
    private let dropped: Count
    private let allDropped = Count()
    /// How many records were dropped since the start.
    var droppedInAll: Int { allDropped.value }

    /// - Parameter send: Returns whether the record was taken; may block. Never called concurrently.
    init(limit: Int, send: @escaping Send) {
        self.limit = limit
        let (waitingBytes, dropped, queue, allDropped) = (Count(), Count(), queue, allDropped)
        self.waitingBytes = waitingBytes
        self.dropped = dropped
        let status = startThread {
            while true {
                switch queue.next() {
                case .record(let record):
                    if !send(record) {
                        dropped.add(1)
                        allDropped.add(1)
                    }
                    waitingBytes.add(-record.size)
                    Self.report(dropped, send)
                case .flushed(let done): done.signal()
                case .end: return
                }
            }
        }
        // Without the thread, records fill the queue and are then counted as dropped.
        assert(status == 0)
    }

    deinit { queue.add(.end) }

    func write(_ record: Record) {
        let size = record.size
        guard waitingBytes.add(size) <= limit else {
            waitingBytes.add(-size)
            dropped.add(1)
            allDropped.add(1)
            return
        }
        queue.add(.record(record))
    }

    /// Waits until everything written so far was passed on, or the time is up.
    ///
    /// - Returns: Whether everything was.
    @discardableResult
    func flush(within limit: Duration = .seconds(1)) -> Bool {
        let done = TimedSemaphore()
        queue.add(.flushed(done))
        return done.wait(atMost: limit)
    }

    private static func report(_ dropped: Count, _ send: Send) {
        let count = dropped.take()
        if count > 0, !send(.dropped(count)) { dropped.add(count) }
    }
}

/// A counter for several threads.
private final class Count: Sendable {
    private let number = Atomic(0)

    var value: Int { number.load(ordering: .relaxed) }

    @discardableResult
    func add(_ difference: Int) -> Int { number.add(difference, ordering: .relaxed).newValue }

    func take() -> Int { number.exchange(0, ordering: .relaxed) }
}
