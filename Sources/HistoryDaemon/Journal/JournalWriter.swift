import CSystemd
import Glibc
import Logging
import PersistentHistory
import Synchronization

/// Hands entries to journald without blocking the caller.
///
/// `sd_journal_sendv` blocks while journald does not read, and a daemon must not stand still for its
/// own log. So entries wait here in order, for a thread of their own, up to `limit` bytes; what comes when
/// that is full is dropped and counted, and one entry tells how many as soon as journald reads again.
final class JournalWriter: Sendable {
    typealias Send = @Sendable (JournalEntry) -> Bool

    static let shared = JournalWriter(limit: 4 << 20, send: JournalWriter.sendToJournal)

    private enum Item: Sendable {
        case entry(JournalEntry)
        /// Everything before it was handed over.
        case flushed(TimedSemaphore)
        case end
    }

    private let limit: Int
    private let queue = ThreadQueue<Item>()
    private let waitingBytes: Count
    private let dropped: Count
    private let allDropped = Count()
    /// How many entries were dropped since the start.
    var droppedInAll: Int { allDropped.value }

    /// - Parameter send: whether the entry was taken; may block. Called one at a time.
    init(limit: Int, send: @escaping Send) {
        self.limit = limit
        let (waitingBytes, dropped, queue, allDropped) = (Count(), Count(), queue, allDropped)
        self.waitingBytes = waitingBytes
        self.dropped = dropped
        let status = startThread {
            while true {
                switch queue.next() {
                case .entry(let entry):
                    if !send(entry) {
                        dropped.add(1)
                        allDropped.add(1)
                    }
                    waitingBytes.add(-entry.bytes.count)
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

    func write(_ entry: JournalEntry) {
        let size = entry.bytes.count
        guard waitingBytes.add(size) <= limit else {
            waitingBytes.add(-size)
            dropped.add(1)
            allDropped.add(1)
            return
        }
        queue.add(.entry(entry))
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
        guard count > 0 else { return }
        let event = MessageCode.linesDropped
        let entry = JournalEntry(
            level: event.level,
            message: "\(count) log lines were dropped, because the journal did not take them in time.",
            metadata: ["event": .string(event.rawValue)])
        if !send(entry) { dropped.add(count) }
    }

    /// Source: sd_journal_sendv(3). It gives 0, too, where no journald runs at all.
    private static func sendToJournal(_ entry: JournalEntry) -> Bool {
        // sendmsg() only reads the buffers, but an iovec has no way to say so.
        var bytes = entry.bytes
        return bytes.withUnsafeMutableBytes { buffer in
            var start = 0
            let fields = entry.ends.map { end in
                defer { start = end }
                let field = UnsafeMutableRawBufferPointer(rebasing: buffer[start..<end])
                return iovec(iov_base: field.baseAddress, iov_len: field.count)
            }
            return sd_journal_sendv(fields, Int32(fields.count)) >= 0
        }
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
