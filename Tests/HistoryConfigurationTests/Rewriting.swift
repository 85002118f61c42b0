@testable import HistoryBase
@testable import HistoryConfiguration

extension JSONValue {
    /// The path of this value and of all in it.
    func places(_ path: DocumentPath = DocumentPath()) -> [String] {
        switch content {
        case .array(let values):
            [path.description] + values.enumerated().flatMap { $1.places(path.entering(index: $0)) }
        case .object(let members):
            [path.description] + members.flatMap { $0.value.places(path.entering(key: $0.key)) }
        default: [path.description]
        }
    }

    /// The text on one line, with what stands at one place changed, and that place's column.
    func rewritten(at place: String, _ change: (String) -> String) -> (text: String, column: Int) {
        withoutActuallyEscaping(change) { change in
            var writer = Writer(place: place, change: change)
            writer.write(self, DocumentPath())
            return (writer.text, writer.column)
        }
    }

    private struct Writer {
        let place: String
        let change: (String) -> String
        var text = ""
        var column = 0

        mutating func write(_ value: JSONValue, _ path: DocumentPath) {
            let start = text.unicodeScalars.count
            switch value.content {
            case .null: text += "null"
            case .bool(let bool): text += "\(bool)"
            case .number(let number): text += number.text
            case .string(let string): text += quoted(string)
            case .array(let values):
                text += "["
                for (index, value) in values.enumerated() {
                    if index > 0 { text += "," }
                    write(value, path.entering(index: index))
                }
                text += "]"
            case .object(let members):
                text += "{"
                for (index, member) in members.enumerated() {
                    if index > 0 { text += "," }
                    text += quoted(member.key) + ":"
                    write(member.value, path.entering(key: member.key))
                }
                text += "}"
            }
            guard path.description == place else { return }
            let scalars = text.unicodeScalars
            let written = String(scalars.dropFirst(start))
            text = String(scalars.prefix(start)) + change(written)
            column = start + 1
        }

        private func quoted(_ string: String) -> String {
            let escaped = string.unicodeScalars.map { scalar in
                if scalar == "\"" || scalar == "\\" { return "\\\(scalar)" }
                guard scalar.value < 0x20 else { return String(scalar) }
                return "\\u00\(scalar.value < 16 ? "0" : "")\(String(scalar.value, radix: 16))"
            }
            return "\"\(escaped.joined())\""
        }
    }
}
