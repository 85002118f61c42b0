public import Logging

/// One sentence of an event, for logs.
public struct EventMessage: Sendable, Equatable {
    /// Nil if it is no reason for an alert.
    package let code: MessageCode?
    /// An error needs an operator, a warning passes by itself, a notice is a rare change.
    public let level: Logger.Level
    /// The sentence, which is understood without the fields.
    public let text: String
    /// What it is about: `store`, `consumer`, `hook`, `context`, `author`, `entity`, `token`.
    public let fields: Logger.Metadata

    enum Weight {
        case code(MessageCode)
        case level(Logger.Level)
    }

    init(_ weight: Weight, _ text: String, _ fields: [(String, String?)] = []) {
        (code, level) =
            switch weight {
            case .code(let code): (code, code.level)
            case .level(let level): (nil, level)
            }
        self.text = text
        self.fields = fields.reduce(into: [:]) { fields, field in
            if let value = field.1 { fields[field.0] = .string(value) }
        }
    }
}
