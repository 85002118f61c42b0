import Glibc

/// A terminal in which each key is read as it is pressed, on a screen of its own; what was there before is back at the
/// end.
struct RawTerminal: ~Copyable {
    enum Input {
        case keys([UInt8])
        /// The time is up, or the window has another size.
        case nothing
        /// The terminal is gone.
        case end
    }

    private let saved: termios

    /// Nil where standard input or output is no terminal.
    init?() {
        // Kept only now: what fails with all its properties set is ended like any other, and that would put a
        // terminal back which was never taken.
        var saved = termios()
        guard StandardOutput.isTerminal, isatty(STDIN_FILENO) == 1, tcgetattr(STDIN_FILENO, &saved) == 0 else {
            return nil
        }
        self.saved = saved
        var raw = saved
        // Ctrl-C is a key as well: the terminal must be put back.
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw)
        // Interrupts the wait for a key.
        signal(SIGWINCH) { _ in }
        Self.write("\u{1B}[?1049h\u{1B}[?25l")
    }

    deinit {
        Self.write("\u{1B}[?25h\u{1B}[?1049l")
        var saved = saved
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved)
    }

    /// Columns and rows.
    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Waits for a key.
    func read(within milliseconds: Int32) -> Input {
        var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        guard poll(&ready, 1, milliseconds) > 0 else { return .nothing }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
        return count > 0 ? .keys(Array(bytes[..<count])) : .end
    }

    /// Puts lines on the screen, from its top.
    func draw(_ lines: [String]) {
        Self.write("\u{1B}[H" + lines.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n") + "\u{1B}[J")
    }

    private static func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            // Where the terminal is gone the next read says so.
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }
}
