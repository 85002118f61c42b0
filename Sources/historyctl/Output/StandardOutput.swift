import Glibc

/// Standard output, buffered in blocks: call `flush` at the end.
struct StandardOutput: ~Copyable {
    private static let blockSize = 1 << 16
    private var buffer: [UInt8] = []
    private let descriptor: Int32

    /// - Parameter descriptor: Standard error if standard output belongs to a command.
    init(descriptor: Int32 = STDOUT_FILENO) {
        self.descriptor = descriptor
        buffer.reserveCapacity(2 * Self.blockSize)
    }

    /// Whether a reader sits at a terminal.
    static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// The width of the terminal's window; nil without a terminal.
    static var columns: Int? {
        guard isTerminal else { return nil }
        var size = winsize()
        return ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
    }

    mutating func write(_ bytes: some Sequence<UInt8>) throws(StreamError) {
        buffer.append(contentsOf: bytes)
        if buffer.count >= Self.blockSize { try flush() }
    }

    mutating func writeLine(_ text: String) throws(StreamError) {
        try write(text.utf8)
        try write(CollectionOfOne(UInt8(ascii: "\n")))
    }

    mutating func flush() throws(StreamError) {
        var start = 0
        while start < buffer.count {
            let written = buffer[start...].withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            if written > 0 {
                start += written
            } else if errno != EINTR {
                throw StreamError("Standard output cannot be written", errno)
            }
        }
        buffer.removeAll(keepingCapacity: true)
    }
}

/// Standard input or output failed.
struct StreamError: Error, CustomStringConvertible {
    let description: String

    init(_ what: String, _ number: Int32) { description = "\(what): \(String(cString: strerror(number)))." }
}
