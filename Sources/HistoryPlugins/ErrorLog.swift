import HistoryConfiguration
import Logging
import PersistentHistory

/// Passes on to the log what a plugin writes to standard error.
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
    /// - Returns: the last lines.
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

/// What a plugin writes to standard error, as lines for the log: cut where they are very long,
/// repaired where they are no UTF-8, and held back when they come in a flood.
struct ErrorLines: Sendable {
    static let maximumLength = 4096
    /// So many lines are let through at once, and from there on so many together each second.
    static let burst = 200
    static let linesPerSecond = 20

    /// One line for the log, and how many before it were dropped.
    struct Line: Sendable, Hashable {
        let text: String
        let droppedBefore: Int
    }

    private var splitter = LineSplitter(limit: maximumLength)
    private var allowance = Double(burst)
    private var isDropping = false
    private var last: SuspendingClock.Instant?
    /// Not reported yet.
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
        // Colours and the like would make a reader of the journal take it for no text at all.
        let isPlain = text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == UInt8(ascii: "\t") }
        return isPlain ? text : text.printable
    }
}

/// The first lines that a process wrote to standard error, and the last ones: mostly these say why it failed. Where a runtime
/// itself fails, a trace follows the reason.
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

    /// Nil where there is none.
    var last: String? { lines.withLock { $0.last.last ?? $0.first.last } }

    /// On one line, as the end of a sentence that another one may follow; nil where there is none.
    var text: String? {
        let lines = lines.withLock { $0 }
        if lines.first.isEmpty { return nil }
        return (lines.first.map(\.excerpt) + (lines.isCut ? ["…"] : []) + lines.last.map(\.excerpt))
            .joined(separator: " / ")
    }
}

/// Slows down the reading of what is thrown away: a plugin that writes without end is to wait, not
/// to keep a processor busy. A plugin that writes much now and then does not notice.
struct FloodBrake {
    private static let pause: Duration = .milliseconds(20)

    /// How much may be thrown away between two pauses.
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
