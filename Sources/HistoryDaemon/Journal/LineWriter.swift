import Glibc
import HistoryConfiguration
import Logging
import PersistentHistory
import Synchronization

/// Passes lines to standard error, or another descriptor, without blocking the caller: a pipe without a reader
/// is soon full, and a terminal may be stopped (^S).
typealias LineWriter = LogWriter<LogLine>

/// A log line without fields.
struct LogLine: LogRecord {
    /// With its line break.
    let bytes: [UInt8]

    init(
        level: Logger.Level, message: String, metadata: Logger.Metadata = [:],
        format: LogFormat = LogLine.format
    ) {
        let text =
            switch format {
            case .text: Array(LogText.line(level: level, message: message, metadata: metadata).utf8)
            case .json: LogText.json(level: level, message: message, metadata: metadata, at: .now)
            }
        bytes = text + [UInt8(ascii: "\n")]
    }

    private static let isJSON = Atomic(false)

    /// The format of new lines, as configured.
    static var format: LogFormat {
        get { isJSON.load(ordering: .relaxed) ? .json : .text }
        set { isJSON.store(newValue == .json, ordering: .relaxed) }
    }

    var size: Int { bytes.count }

    static func dropped(_ count: Int) -> LogLine {
        let event = MessageCode.linesDropped
        return LogLine(
            level: event.level,
            message: "\(count) log lines were dropped, because standard error did not take them in time.",
            metadata: ["event": .string(event.rawValue)])
    }
}

extension LogWriter<LogLine> {
    /// A generic type cannot have static stored properties.
    static var shared: LineWriter { sharedWriter }

    convenience init(limit: Int, to descriptor: Int32) {
        self.init(limit: limit) { Self.send($0.bytes, to: descriptor) }
    }

    /// Writes a line with one write(2) where the descriptor takes it whole, so that lines of several processes
    /// do not mix.
    ///
    /// - Returns: Whether all of it was written. A failure of standard error itself cannot be reported.
    private static func send(_ line: [UInt8], to descriptor: Int32) -> Bool {
        line.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Glibc.write(
                    descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count < 0, errno == EAGAIN {
                    // The parent process made it non-blocking. The descriptor is shared, so this stays.
                    var file = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&file, 1, -1)
                } else if count == 0 || errno != EINTR {
                    return false
                }
            }
            return true
        }
    }
}

private let sharedWriter = LineWriter(limit: 4 << 20, to: STDERR_FILENO)
