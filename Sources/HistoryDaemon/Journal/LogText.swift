import Logging
import PersistentHistory

/// Formats a log line where there are no fields.
enum LogText {
    /// `level: message key=value`, without a line break: one event is one line.
    static func line(level: Logger.Level, message: String, metadata: Logger.Metadata) -> String {
        var line = "\(level): \(oneLine(message))"
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
            line.append(" \(pair(key, value))")
        }
        return line
    }

    /// One line of JSON: time, level, message, then the fields by name.
    static func json(
        level: Logger.Level, message: String, metadata: Logger.Metadata, at time: HistoryTimestamp
    ) -> [UInt8] {
        var json = JSONBytes()
        json.object { json in
            json.member("time", time.description)
            json.member("level", level.rawValue)
            json.member("message", message)
            for (key, value) in metadata.sorted(by: { $0.key < $1.key })
            where !["time", "level", "message"].contains(key) {
                let text = "\(value)"
                json.name(key)
                json.string(key == "event" ? MessageCode(rawValue: text).map { "\($0)" } ?? text : text)
            }
        }
        return json.bytes.array
    }

    /// `key=value`; the value in quotes where it would not read as one word.
    static func pair(_ key: String, _ value: Logger.MetadataValue) -> String {
        var text = "\(value)"
        // The id is for machines; readers get the event's name.
        if key == "event", let event = MessageCode(rawValue: text) { text = "\(event)" }
        let isWord =
            !text.isEmpty && !text.utf8.contains(UInt8(ascii: " ")) && !text.utf8.contains(UInt8(ascii: "\""))
            && (text.isPlain || text.unicodeScalars.allSatisfy { !$0.breaksLine })
        if isWord { return "\(key)=\(text)" }
        return "\(key)=\"\(oneLine(text.escaping("\\").escaping("\"")))\""
    }

    private static func oneLine(_ text: String) -> String {
        if text.isPlain { return text }
        var line = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": line.append("\\n")
            case "\r": line.append("\\r")
            case "\t": line.append("\\t")
            case _ where scalar.breaksLine: line.append("\\u{\(String(scalar.value, radix: 16))}")
            default: line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

extension Unicode.Scalar {
    /// Whether it ends the line, or could move a terminal's cursor or colour.
    fileprivate var breaksLine: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}

extension String {
    /// Whether it is printable ASCII only, as nearly all text is.
    fileprivate var isPlain: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } }

    fileprivate func escaping(_ character: Character) -> String {
        reduce(into: "") { result, next in
            if next == character { result.append("\\") }
            result.append(next)
        }
    }
}
