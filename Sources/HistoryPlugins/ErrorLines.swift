import HistoryConfiguration
import PersistentHistory

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
