import FoundationEssentials

/// What a plugin answered to one call.
struct PluginAnswer: Sendable, Hashable {
    enum Outcome: Sendable, Hashable {
        /// Usually an observer's.
        case null
        case text(String)
        case verdict(MergeVerdict)
        /// Any other JSON: an observer may say what it likes.
        case other
        /// A JSON-RPC error's message.
        case refused(String)
        /// The message of the JSON-RPC error -32601, "method not found".
        case methodUnknown(String)

        var isError: Bool {
            switch self {
            case .refused, .methodUnknown: true
            case .null, .text, .verdict, .other: false
            }
        }
    }

    /// Nil if the plugin could not tell which call it answers.
    let id: Int64?
    let outcome: Outcome

    /// Reads one line as a JSON-RPC 2.0 response; nil if it is none.
    init?(line: ArraySlice<UInt8>) {
        if let answer = PlainAnswer(line), let id = answer.id, let outcome = answer.outcome {
            self.id = id
            self.outcome = outcome
        } else if String(validating: line, as: UTF8.self) != nil,
            let answer = try? JSONDecoder().decode(DecodedAnswer.self, from: Data(line))
        {
            id = answer.id
            outcome = answer.outcome
        } else {
            return nil
        }
    }
}

struct DecodedResult: Decodable {
    let outcome: PluginAnswer.Outcome

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            outcome = .null
        } else if let text = try? container.decode(String.self) {
            outcome = .text(text)
        } else if let verdict = try? container.decode(MergeVerdict.self) {
            outcome = .verdict(verdict)
        } else {
            outcome = .other
        }
    }
}

private struct DecodedAnswer: Decodable {
    let id: Int64?
    let outcome: PluginAnswer.Outcome

    private enum Key: String, CodingKey { case id, result, error }

    private struct Failure: Decodable {
        let code: Double?
        let message: String?
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        id = try container.decodeIfPresent(Int64.self, forKey: .id)
        if let failure = try container.decodeIfPresent(Failure.self, forKey: .error) {
            // Not every number that JSON can write is an integer.
            let code = failure.code.map { Int64(exactly: $0).map { "\($0)" } ?? "\($0)" }
            let message = failure.message ?? "error \(code ?? "without a message")"
            outcome = failure.code == -32601 ? .methodUnknown(message) : .refused(message)
        } else {
            // Without either it is no response (JSON-RPC 2.0, section 5).
            outcome = try container.decode(DecodedResult.self, forKey: .result).outcome
        }
    }
}
