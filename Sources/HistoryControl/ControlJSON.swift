import FoundationEssentials

/// Messages as JSON: one line, members in the order of their names, those without a value left out.
package enum ControlJSON {
    package static func bytes(_ message: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(message)) + [UInt8(ascii: "\n")]
    }

    package static func read<Message: Decodable>(_ type: Message.Type, from bytes: [UInt8]) throws -> Message {
        try JSONDecoder().decode(type, from: Data(bytes))
    }
}
