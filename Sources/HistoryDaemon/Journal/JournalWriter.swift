import CSystemd
import Dispatch
import Glibc
import Logging
import Synchronization

/// Hands entries to journald without making anyone wait for it.
///
/// `sd_journal_sendv` blocks while journald does not read, and a daemon must not stand still for its
/// own log. So entries wait here in order, up to `limit` bytes; what comes when that is full is
/// dropped and counted, and one entry tells how many as soon as journald reads again.
final class JournalWriter: Sendable {
    typealias Send = @Sendable (JournalEntry) -> Bool

    static let shared = JournalWriter(limit: 4 << 20, send: JournalWriter.sendToJournal)

    private let limit: Int
    private let send: Send
    private let queue = DispatchQueue(label: "historyd.journal")
    private let waitingBytes = Atomic(0)
    private let dropped = Atomic(0)

    /// - Parameter send: whether the entry was taken; may block. Called one at a time.
    init(limit: Int, send: @escaping Send) {
        self.limit = limit
        self.send = send
    }

    func write(_ entry: JournalEntry) {
        let size = entry.bytes.count
        let waiting = waitingBytes.add(size, ordering: .relaxed).newValue
        guard waiting <= limit else {
            waitingBytes.subtract(size, ordering: .relaxed)
            dropped.add(1, ordering: .relaxed)
            return
        }
        queue.async { [self] in
            if !send(entry) { dropped.add(1, ordering: .relaxed) }
            waitingBytes.subtract(size, ordering: .relaxed)
            reportDropped()
        }
    }

    /// Waits until everything written so far was handed over, or the time is up.
    ///
    /// - Returns: whether everything was.
    @discardableResult
    func flush(within limit: DispatchTimeInterval = .seconds(1)) -> Bool {
        let done = DispatchSemaphore(value: 0)
        queue.async { done.signal() }
        return done.wait(timeout: .now() + limit) == .success
    }

    private func reportDropped() {
        let count = dropped.exchange(0, ordering: .relaxed)
        guard count > 0 else { return }
        let event = Event.linesDropped
        let entry = JournalEntry(
            level: event.level,
            message: "\(count) log lines were dropped, because the journal did not take them in time.",
            metadata: ["event": .string(event.rawValue)])
        if !send(entry) { dropped.add(count, ordering: .relaxed) }
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
