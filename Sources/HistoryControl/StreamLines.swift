package import NIOCore

/// Puts the lines of a stream together from the pieces in which it comes.
package struct StreamLines: Sendable {
    private var tail: [UInt8] = []

    package init() {}

    /// - Returns: The lines that are whole now, without their line breaks.
    package mutating func take(_ bytes: ByteBuffer) -> [ArraySlice<UInt8>] {
        let new = bytes.readableBytesView
        guard let end = new.lastIndex(of: UInt8(ascii: "\n")) else {
            tail += new
            return []
        }
        tail += new[...end]
        let lines = tail.split(separator: UInt8(ascii: "\n"))
        tail = Array(new[(end + 1)...])
        return lines
    }

    /// The error that a line is, where a stream breaks off with it.
    package static func failure(in line: ArraySlice<UInt8>) throws -> ControlError? {
        guard line.starts(with: #"{"error":"#.utf8) else { return nil }
        return try ControlJSON.read(ControlFailure.self, from: Array(line)).error
    }
}
