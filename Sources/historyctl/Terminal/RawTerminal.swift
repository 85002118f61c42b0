internal import CPlatform
import Glibc

/// A terminal that delivers each key as it is pressed, on an alternate screen. The previous screen is restored
/// at the end.
struct RawTerminal: ~Copyable {
    enum Input {
        case keys([UInt8])
        /// The time is up, or the window has been resized.
        case nothing
        /// The terminal is closed.
        case end
    }

    // A failed initializer still runs `deinit` once all properties are set; that must not restore a terminal
    // that was never taken.
    private let isTaken: Bool

    /// Nil if standard input or output is not a terminal.
    init?() {
        guard cplatform_take_terminal() == 0 else { return nil }
        isTaken = true
    }

    deinit { cplatform_give_back_terminal() }

    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Waits for keys.
    func read(within milliseconds: Int32) -> Input {
        guard Self.isReady(within: milliseconds) else { return .nothing }
        var keys: [UInt8] = []
        repeat {
            var bytes = [UInt8](repeating: 0, count: 64)
            let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
            if count <= 0 { return keys.isEmpty ? .end : .keys(keys) }
            keys += bytes[..<count]
            // The rest of an escape sequence may arrive a little later than its start.
        } while Key.isIncomplete(keys) && Self.isReady(within: 50)
        return .keys(keys)
    }

    private static func isReady(within milliseconds: Int32) -> Bool {
        var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        return poll(&ready, 1, milliseconds) > 0
    }

    /// Draws lines from the top of the screen.
    func draw(_ lines: [String]) {
        Self.write("\u{1B}[H" + lines.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n") + "\u{1B}[J")
    }

    private static func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            // If the terminal is closed, the next read reports it.
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }
}
