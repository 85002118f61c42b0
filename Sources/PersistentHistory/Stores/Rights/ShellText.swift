package enum ShellText {
    /// Quotes a path if it needs quotes.
    package static func quote(_ path: String) -> String {
        let isPlain = path.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || "0123456789/._-+=:@%,".utf8.contains(byte)
        }
        if isPlain { return path }
        // As bytes: `String` treats a quote and a following combining accent as one character.
        let inside = path.utf8.flatMap { $0 == UInt8(ascii: "'") ? Array("'\\''".utf8) : [$0] }
        return "'\(String(decoding: inside, as: UTF8.self))'"
    }

    /// Quotes a path for a setting of a unit (systemd.syntax(7), systemd.unit(5)): spaces separate, `%`
    /// begins a specifier.
    static func quoteForUnit(_ path: String) -> String {
        var quoted: [UInt8] = []
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "%"): quoted += "%%".utf8
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): quoted += [UInt8(ascii: "\\"), byte]
            default: quoted.append(byte)
            }
        }
        let text = String(decoding: quoted, as: UTF8.self)
        let isPlain = !path.utf8.contains { $0 <= 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "'") }
        return isPlain ? text : "\"\(text)\""
    }
}
