import CSystemd
import Glibc
import Logging
import PersistentHistory

/// Passes entries to journald without blocking the caller: `sd_journal_sendv` blocks while journald does not
/// read.
typealias JournalWriter = LogWriter<JournalEntry>

extension JournalEntry: LogRecord {
    var size: Int { bytes.count }

    static func dropped(_ count: Int) -> JournalEntry {
        let event = MessageCode.linesDropped
        return JournalEntry(
            level: event.level,
            message: "\(count) log lines were dropped, because the journal did not take them in time.",
            metadata: ["event": .string(event.rawValue)])
    }
}

extension LogWriter<JournalEntry> {
    /// A generic type cannot have static stored properties.
    static var shared: JournalWriter { sharedWriter }

    /// Source: sd_journal_sendv(3). It returns 0 also where no journald runs at all.
    fileprivate static func sendToJournal(_ entry: JournalEntry) -> Bool {
        // sendmsg() only reads the buffers, but an iovec has no const pointer.
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

private let sharedWriter = JournalWriter(limit: 4 << 20, send: JournalWriter.sendToJournal)
