extension Tombstone {
    /// The values as text, by column, as in the kit; nulls are omitted. The page *Tombstones* has the
    /// rules.
    public var attributes: [BinaryText: String] {
        var attributes: [BinaryText: String] = [:]
        for (column, value) in values {
            attributes[column.name] = TombstoneText.text(of: value, declaredType: column.declaredType)
        }
        return attributes
    }
}

/// The text of a deleted row's value, as a tombstone's `attributes` contain it.
///
/// SQLite has few types (https://www.sqlite.org/datatype3.html), so the column's declared type tells what
/// the value means: UUID, URL, DATE, DATETIME, TIMESTAMP and BOOLEAN have their own forms. A value that
/// does not fit its column's type is written as it is.
package enum TombstoneText {
    /// - Returns: Nil for null, which `attributes` omits.
    package static func text(of value: HistoryValue, declaredType: String) -> String? {
        if case .null = value { return nil }
        return special(value, meaning: Meaning(declaredType: declaredType)) ?? plain(value)
    }

    private enum Meaning {
        case uuid, date, boolean, plain

        /// The first word decides: `TIMESTAMP(3)` is a TIMESTAMP.
        init(declaredType: String) {
            let word = declaredType.prefix { $0 != " " && $0 != "(" }
            switch word.uppercased() {
            case "UUID": self = .uuid
            case "DATE", "DATETIME", "TIMESTAMP": self = .date
            case "BOOLEAN", "BOOL": self = .boolean
            default: self = .plain  // The text of a URL is absolute, or is left as it is.
            }
        }
    }

    private static func plain(_ value: HistoryValue) -> String? {
        switch value {
        case .null: nil
        case .integer(let integer): String(integer)
        case .real(let real): real.shortestText
        case .text(let text): text
        case .invalidText(let bytes): String(decoding: bytes, as: UTF8.self)
        case .blob(let blob): Base64.text(blob)
        }
    }

    private static func special(_ value: HistoryValue, meaning: Meaning) -> String? {
        switch (meaning, value) {
        case (.uuid, .text(let text)): uuid(text)
        case (.uuid, .blob(let blob)): uuid(blob)
        case (.boolean, .integer(0)): "false"
        case (.boolean, .integer(1)): "true"
        case (.date, .text(let text)): SQLiteDate(text)?.iso8601
        case (.date, .integer(let seconds)): SQLiteDate(secondsSince1970: seconds)?.iso8601
        case (.date, .real(let seconds)): SQLiteDate(secondsSince1970: seconds)?.iso8601
        default: nil
        }
    }

    // MARK: UUID (RFC 9562, section 4)

    private static func uuid(_ text: String) -> String? { StoreID(text) == nil ? nil : text.uppercased() }

    private static func uuid(_ blob: [UInt8]) -> String? {
        guard blob.count == 16 else { return nil }
        var text = ByteBuffer()
        Hexadecimal.append(uuid: blob, to: &text)
        return text.text
    }
}
