import Glibc

/// Colours at a terminal, unless they are switched off (https://no-color.org).
struct TerminalStyle: Sendable {
    enum Style: String {
        case bold = "1"
        case dim = "2"
        case red = "31"
        case green = "32"
        case yellow = "33"
        case cyan = "36"
        case reverse = "7"
    }

    let isColoured: Bool

    static var suitable: TerminalStyle {
        let isOff = getenv("NO_COLOR").map { $0.pointee != 0 } ?? false
        let isDumb = getenv("TERM").map { String(cString: $0) == "dumb" } ?? true
        return TerminalStyle(isColoured: StandardOutput.isTerminal && !isOff && !isDumb)
    }

    func callAsFunction(_ text: String, _ style: Style?) -> String {
        guard isColoured, let style, !text.isEmpty else { return text }
        return "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m"
    }
}
