import PersistentHistory
import Synchronization

/// What is written to a log.
protocol LogRecord: Sendable {
    /// How much memory it takes while it waits.
    var size: Int { get }
    /// The record that tells how many others were dropped.
    static func dropped(_ count: Int) -> Self
}

/// Hands records to a log without blocking the caller.
///
/// Each log may stand still: journald does not read, a pipe is full, a terminal is stopped. A daemon must not stand still
/// for its own log. So records wait here in order, for a thread of their own, up to `limit` bytes; what comes when
/// that is full is dropped and counted, and one record tells how many as soon as the log takes some again.
final class LogWriter<Record: LogRecord>: Sendable {
    typealias Send = @Sendable (Record) -> Bool

    private enum Item: Sendable {
        case record(Record)
        /// Everything before it was handed over.
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

    /// - Parameter send: whether the record was taken; may block. Called one at a time.
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
        // Without a thread, whatever is written fills the room for what waits, and is counted.
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

    /// Waits until everything written so far was handed over, or the time is up.
    ///
    /// - Returns: whether everything was.
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

/// A number that several threads count.
private final class Count: Sendable {
    private let number = Atomic(0)

    var value: Int { number.load(ordering: .relaxed) }

    @discardableResult
    func add(_ difference: Int) -> Int { number.add(difference, ordering: .relaxed).newValue }

    func take() -> Int { number.exchange(0, ordering: .relaxed) }
}
