import HistoryConfiguration
import Logging
import PersistentHistory

/// Logs what a plugin writes to standard error.
struct ErrorLog: Sendable {
    private let logger: Logger
    private let level: Logger.Level
    private let tail: ErrorTail

    /// - Parameter tail: Keeps the last lines.
    init(_ logger: Logger, level: Logger.Level = .info, tail: ErrorTail = ErrorTail()) {
        self.logger = logger
        self.level = level
        self.tail = tail
    }

    /// Reads to the end.
    ///
    /// - Returns: The last lines.
    @discardableResult
    func follow(_ errors: Descriptor) async -> String? {
        var lines = ErrorLines()
        var brake = FloodBrake(bytes: 1 << 16)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        do throws(SystemError) {
            while true {
                let count = try await errors.read(into: &buffer)
                guard count > 0 else { break }
                log(lines.split(buffer[..<count], at: .now))
                if lines.dropped > 0 { await brake.brake(after: count) }
            }
        } catch {
            logger.warning("The plugin's standard error could not be read.", metadata: ["error": "\(error)"])
        }
        log(lines.finish(at: .now))
        if lines.dropped > 0 { warn(ofDropped: lines.dropped) }
        return tail.text
    }

    private func log(_ lines: [ErrorLines.Line]) {
        for line in lines {
            if line.droppedBefore > 0 { warn(ofDropped: line.droppedBefore) }
            logger.log(level: level, "\(line.text)")
            tail.add(line.text)
        }
    }

    private func warn(ofDropped count: Int) {
        logger.warning(
            "The plugin writes too much to standard error; lines were dropped.", metadata: ["count": "\(count)"]
        )
    }
}

/// Turns a plugin's standard error into lines for the log. Very long lines are cut, invalid UTF-8 is repaired,
/// and floods are limited.
struct ErrorLines: Sendable {
    static let maximumLength = 4096
    /// This many lines pass at once; after that, `linesPerSecond` is the limit.
    static let burst = 200
    static let linesPerSecond = 20

    /// One line for the log, and how many lines before it were dropped.
    struct Line: Sendable, Hashable {
        let text: String
        let droppedBefore: Int
    }

    private var splitter = LineSplitter(limit: maximumLength)
    private var allowance = Double(burst)
    private var isDropping = false
    private var last: SuspendingClock.Instant?
    /// Dropped lines that are not reported yet.
    private(set) var dropped = 0

    mutating func split(_ chunk: ArraySlice<UInt8>, at now: SuspendingClock.Instant) -> [Line] {
        refill(at: now)
        var (rest, lines) = (chunk, [Line]())
        while let (bytes, isCut) = splitter.next(&rest) {
            if let line = admit(bytes, isCut) { lines.append(line) }
        }
        return lines
    }

    mutating func finish(at now: SuspendingClock.Instant) -> [Line] {
        refill(at: now)
        guard let (bytes, isCut) = splitter.last(), let line = admit(bytes, isCut) else { return [] }
        return [line]
    }

    private mutating func admit(_ bytes: ArraySlice<UInt8>, _ isCut: Bool) -> Line? {
        guard bytes.contains(where: { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\r") }) else { return nil }
        if allowance < 1 { isDropping = true }
        guard !isDropping else {
            dropped += 1
            return nil
        }
        allowance -= 1
        defer { dropped = 0 }
        return Line(text: Self.text(of: bytes) + (isCut ? "…" : ""), droppedBefore: dropped)
    }

    private mutating func refill(at now: SuspendingClock.Instant) {
        if let last {
            let seconds = (now - last) / .seconds(1)
            allowance = min(Double(Self.burst), allowance + seconds * Double(Self.linesPerSecond))
            if allowance >= Double(Self.linesPerSecond) { isDropping = false }
        }
        last = now
    }

    private static func text(of bytes: ArraySlice<UInt8>) -> String {
        let text = String(decoding: bytes.last == UInt8(ascii: "\r") ? bytes.dropLast() : bytes, as: UTF8.self)
        // Control characters, such as colours, would make a journal reader treat the line as binary.
        let isPlain = text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == UInt8(ascii: "\t") }
        return isPlain ? text : text.printable
    }
}

/// The first and last lines that a process wrote to standard error: mostly these say why it failed. If a
/// runtime itself fails, a trace follows the reason.
final class ErrorTail: Sendable {
    private static let (first, most) = (2, 3)

    private struct Lines {
        var first: [String] = []
        var last: [String] = []
        var isCut = false
    }

    private let lines = Locked(Lines())

    func add(_ line: String) {
        lines.withLock { lines in
            if lines.first.count < Self.first {
                lines.first.append(line)
                return
            }
            lines.last.append(line)
            guard lines.last.count > Self.most else { return }
            lines.last.removeFirst()
            lines.isCut = true
        }
    }

    /// Nil if there are no lines.
    var last: String? { lines.withLock { $0.last.last ?? $0.first.last } }

    /// The lines joined as the end of a sentence, so that another sentence may follow; nil if there are none.
    var text: String? {
        let lines = lines.withLock { $0 }
        if lines.first.isEmpty { return nil }
        return (lines.first.map(\.excerpt) + (lines.isCut ? ["…"] : []) + lines.last.map(\.excerpt))
            .joined(separator: " / ")
    }
}

/// Slows down the reading of discarded output: a plugin that writes without end must block, and not keep a
/// processor busy. It does not affect a plugin that occasionally writes much.
struct FloodBrake {
    private static let pause: Duration = .milliseconds(20)

    /// How much may be discarded between two pauses.
    private let limit: Int
    private var thrownAway = 0

    init(bytes limit: Int) { self.limit = limit }

    mutating func brake(after count: Int) async {
        thrownAway += count
        guard thrownAway >= limit else { return }
        thrownAway = 0
        // It throws only when it is cancelled, and then there is nothing more to read.
        try? await Task.sleep(for: Self.pause, clock: .loop)
    }
}
