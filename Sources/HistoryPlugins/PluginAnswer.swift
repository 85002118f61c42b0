import FoundationEssentials
import Glibc

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
        if let id = Self.success(line) {
            self.id = id
            outcome = .null
        } else if String(validating: line, as: UTF8.self) != nil,
            let answer = try? JSONDecoder().decode(DecodedAnswer.self, from: Data(line))
        {
            id = answer.id
            outcome = answer.outcome
        } else {
            return nil
        }
    }

    /// How most programs write that all is well: without blanks, and as Python's `json.dumps` does.
    private static let successes: [(head: StaticString, tail: StaticString)] = [
        (#"{"jsonrpc":"2.0","id":"#, #","result":null}"#),
        (#"{"jsonrpc": "2.0", "id": "#, #", "result": null}"#),
    ]

    /// The id, where the answer is one of these: nearly all are, and need no decoder.
    static func success(_ line: ArraySlice<UInt8>) -> Int64? {
        line.withUnsafeBufferPointer { bytes in
            for (head, tail) in successes {
                let (start, end) = (head.utf8CodeUnitCount, line.count - tail.utf8CodeUnitCount)
                guard start < end, end - start <= 18, let base = bytes.baseAddress,
                    memcmp(base, head.utf8Start, start) == 0,
                    memcmp(base + end, tail.utf8Start, tail.utf8CodeUnitCount) == 0
                else { continue }
                var id: Int64 = 0
                for index in start..<end {
                    let digit = bytes[index] &- UInt8(ascii: "0")
                    guard digit < 10 else { return nil }
                    id = id &* 10 &+ Int64(digit)
                }
                return id
            }
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
