internal import Glibc

/// Splits chunks of any boundaries into lines, and limits what is kept of a line.
package struct LineSplitter: Sendable {
    private let limit: Int
    /// The received part of the current line, at most `limit` bytes of it.
    private var start: [UInt8] = []
    /// Whether the current line is longer than the limit.
    package private(set) var isOverLimit = false

    package init(limit: Int = .max) { self.limit = limit }

    /// Takes the next line, without its end, off the front of a chunk, and returns whether it was cut.
    /// Nil if no complete line is left; the rest of the chunk is then kept.
    package mutating func next(_ chunk: inout ArraySlice<UInt8>) -> (line: ArraySlice<UInt8>, isCut: Bool)? {
        guard let end = Self.lineEnd(in: chunk) else {
            keep(chunk)
            chunk = []
            return nil
        }
        let line = chunk[..<end]
        chunk = chunk[(end + 1)...]
        // A line usually comes in one chunk, and need not be copied.
        if start.isEmpty, line.count <= limit { return (line, false) }
        keep(line)
        defer { begin() }
        return (start[...], isOverLimit)
    }

    /// Takes a last line without an end.
    package mutating func last() -> (line: ArraySlice<UInt8>, isCut: Bool)? {
        defer { begin() }
        return start.isEmpty && !isOverLimit ? nil : (start[...], isOverLimit)
    }

    private mutating func begin() {
        start = []
        isOverLimit = false
    }

    private static func lineEnd(in bytes: ArraySlice<UInt8>) -> Int? {
        bytes.withUnsafeBytes { raw in
            guard let start = raw.baseAddress, let end = memchr(start, 0x0A, raw.count) else { return nil }
            return bytes.startIndex + (UnsafeRawPointer(end) - start)
        }
    }

    private mutating func keep(_ bytes: ArraySlice<UInt8>) {
        if bytes.count > limit - start.count { isOverLimit = true }
        start += bytes.prefix(limit - start.count)
    }
}
