import Glibc
import HistoryConfiguration
import PersistentHistory

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
            return
        }
        guard let response = JSONReader.read(Array(line)).root?.object else { return nil }
        if let id = response["id"], !id.isNull {
            guard let number = id.number?.integer else { return nil }
            self.id = Int64(number)
        } else {
            id = nil
        }
        if let error = response["error"], !error.isNull {
            guard let failure = error.object else { return nil }
            // Not every number that JSON can write is an integer.
            let code = failure["code"]?.number?.double
            let number = code.map { Int64(exactly: $0).map { "\($0)" } ?? "\($0)" }
            let message = failure["message"]?.text ?? "error \(number ?? "without a message")"
            outcome = code == -32601 ? .methodUnknown(message) : .refused(message)
        } else if let result = response["result"] {
            outcome = Outcome(result)
        } else {
            // Without either it is no response (JSON-RPC 2.0, section 5).
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
                    // JSON has no zeros in front.
                    guard digit < 10, digit > 0 || index > start || end - start == 1 else { return nil }
                    id = id &* 10 &+ Int64(digit)
                }
                return id
            }
            return nil
        }
    }
}

extension PluginAnswer.Outcome {
    /// What a call's result is.
    init(_ result: JSONValue) {
        if result.isNull {
            self = .null
        } else if let text = result.text {
            self = .text(text)
        } else if let verdict = MergeVerdict(result) {
            self = .verdict(verdict)
        } else {
            self = .other
        }
    }
}
