internal import Glibc

/// The author, process and time of a transaction: the value of `historyd_change.origin`.
package struct Origin: Equatable, Sendable {
    package var authorship: Authorship
    package var processID: Int32?
    package var timestamp: HistoryTimestamp

    /// In bytes. Author and context have at most 255 each.
    package static let longest = 1024

    private static let tab = UInt8(ascii: "\t")

    package init(
        _ authorship: Authorship = .undeclared, processID: Int32? = nil, timestamp: HistoryTimestamp
    ) {
        self.authorship = authorship
        self.processID = processID
        self.timestamp = timestamp
    }

    package var author: String? { authorship.author }

    package static func undeclared(milliseconds: Int64) -> Origin {
        Origin(timestamp: HistoryTimestamp(milliseconds: milliseconds))
    }

    /// Reads `key TAB process TAB milliseconds TAB author [TAB context]`, as the extension writes it.
    ///
    /// Text of another form comes from a binding that declares its author incorrectly. Its change is
    /// recorded nevertheless, without an author.
    ///
    /// - Parameter last: The previous transaction's authorship, mostly of the same writer.
    package static func declared(
        _ text: UnsafeBufferPointer<UInt8>, like last: Authorship = .undeclared
    ) -> Origin {
        // As bytes: this is read for each transaction, and comparing characters takes ten times as long.
        var rest = text
        guard text.count <= longest, let key = field(&rest), !key.isEmpty, let process = field(&rest),
            let time = field(&rest).flatMap(decimal), let first = rest.first, first != tab
        else { return .undeclared(milliseconds: 0) }
        return Origin(
            last.isWritten(rest) ? last : authorship(rest),
            processID: decimal(process).flatMap { Int32(exactly: $0) },
            timestamp: HistoryTimestamp(milliseconds: time))
    }

    package static func declared(_ text: String, like last: Authorship = .undeclared) -> Origin {
        var text = text
        return text.withUTF8 { declared($0, like: last) }
    }

    private static func authorship(_ text: UnsafeBufferPointer<UInt8>) -> Authorship {
        var context = text
        let author = field(&context)
        return Authorship(
            String(decoding: author ?? text, as: UTF8.self),
            author == nil || context.isEmpty ? nil : String(decoding: context, as: UTF8.self), text: Array(text)
        )
    }

    /// Takes the text before the next tab, and the tab; nil if there is none.
    private static func field(_ rest: inout UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8>? {
        guard let start = rest.baseAddress, let found = memchr(start, CInt(tab), rest.count) else { return nil }
        let length = UnsafeRawPointer(found) - UnsafeRawPointer(start)
        rest = UnsafeBufferPointer(start: start + length + 1, count: rest.count - length - 1)
        return UnsafeBufferPointer(start: start, count: length)
    }

    private static func decimal(_ digits: UnsafeBufferPointer<UInt8>) -> Int64? {
        // Larger numbers would not fit, and no process has them.
        guard !digits.isEmpty, digits.count < 19 else { return nil }
        var value: Int64 = 0
        for character in digits {
            let digit = character &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value &* 10 &+ Int64(digit)
        }
        return value
    }
}
