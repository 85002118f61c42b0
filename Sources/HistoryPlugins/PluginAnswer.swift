import FoundationEssentials
import PersistentHistory

/// What a plugin answered to one call.
struct PluginAnswer: Sendable, Hashable {
    enum Outcome: Sendable, Hashable {
        /// An observer's, mostly.
        case null
        case text(String)
        case verdict(MergeVerdict)
        /// Any other JSON: an observer may say what it likes.
        case other
        /// A JSON-RPC error's message.
        case refused(String)
    }

    /// Nil where the plugin could not tell which call it answers.
    let id: Int64?
    let outcome: Outcome

    /// Reads one line as a JSON-RPC 2.0 response; nil where it is none.
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

/// A merge result in its long form.
struct MergeVerdict: Decodable, Sendable, Hashable {
    let verdict: String
    let reject: [String]?
}

extension MergeResult {
    /// Reads a merge hook's result.
    ///
    /// - Throws: `HookFailure` with the reason `badAnswer`.
    init(_ outcome: PluginAnswer.Outcome, from hook: String) throws(HookFailure) {
        func verdict(_ text: String) throws(HookFailure) -> Verdict {
            guard let verdict = Verdict(rawValue: text) else {
                throw HookFailure(
                    .badAnswer, "Hook \"\(hook)\" answered \"\(text.prefix(100))\"; a merge result is goOn or finish.")
            }
            return verdict
        }
        switch outcome {
        case .text(let text): self.init(try verdict(text))
        case .verdict(let answer):
            var rejected: Set<HistoryToken> = []
            for text in answer.reject ?? [] {
                guard let token = HistoryToken(text) else {
                    throw HookFailure(
                        .badAnswer, "Hook \"\(hook)\" rejected \"\(text.prefix(100))\", which is no token.")
                }
                rejected.insert(token)
            }
            self.init(try verdict(answer.verdict), rejecting: rejected)
        case .null, .other, .refused:
            throw HookFailure(
                .badAnswer,
                "Hook \"\(hook)\" gave no merge result; it is \"goOn\", \"finish\" or {\"verdict\":…,\"reject\":[…]}.")
        }
    }

    /// Reads what a oneshot merge hook printed: nothing at all is `goOn`, and a bare word will do.
    init(printed bytes: [UInt8], by hook: String) throws(HookFailure) {
        let text = String(decoding: bytes, as: UTF8.self).trimmed
        if text.isEmpty {
            self.init(.goOn)
        } else if let verdict = Verdict(rawValue: text) {
            self.init(verdict)
        } else if let result = try? JSONDecoder().decode(DecodedResult.self, from: Data(text.utf8)) {
            try self.init(result.outcome, from: hook)
        } else {
            try self.init(.text(text), from: hook)
        }
    }
}

extension String {
    fileprivate var trimmed: String {
        let isSpace: (Character) -> Bool = { $0.isWhitespace }
        return String(drop(while: isSpace).reversed().drop(while: isSpace).reversed())
    }
}

// MARK: - By decoding

private struct DecodedResult: Decodable {
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
            outcome = .refused(failure.message ?? "error \(failure.code.map { "\(Int64($0))" } ?? "without a message")")
        } else {
            // Without either it is no response (JSON-RPC 2.0, section 5).
            outcome = try container.decode(DecodedResult.self, forKey: .result).outcome
        }
    }
}

// MARK: - Without decoding

/// The answers that nearly all are: an object of names and plain values, whatever its spacing and
/// order. It is read in place; anything more than that is left to the decoder.
private struct PlainAnswer {
    private(set) var id: Int64?
    private(set) var outcome: PluginAnswer.Outcome?

    init?(_ line: ArraySlice<UInt8>) {
        var reader = Reader(rest: line)
        guard reader.take("{") else { return nil }
        repeat {
            guard let name = reader.word(), reader.take(":") else { return nil }
            if name.elementsEqual("id".utf8) {
                guard id == nil, let number = reader.integer() else { return nil }
                id = number
            } else if name.elementsEqual("result".utf8) {
                guard outcome == nil else { return nil }
                if let text = reader.word() {
                    outcome = .text(String(decoding: text, as: UTF8.self))
                } else if reader.takeNull() {
                    outcome = .null
                } else {
                    return nil
                }
            } else if name.elementsEqual("jsonrpc".utf8) {
                guard reader.word() != nil else { return nil }
            } else {
                return nil
            }
        } while reader.take(",")
        guard reader.take("}"), reader.isAtEnd else { return nil }
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        var isAtEnd: Bool {
            mutating get {
                skipSpace()
                return rest.isEmpty
            }
        }

        private mutating func skipSpace() {
            while let byte = rest.first, byte == 0x20 || byte == 0x09 || byte == 0x0D { rest.removeFirst() }
        }

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            skipSpace()
            guard rest.first == UInt8(ascii: character) else { return false }
            rest.removeFirst()
            return true
        }

        mutating func takeNull() -> Bool {
            skipSpace()
            guard rest.starts(with: "null".utf8) else { return false }
            rest.removeFirst(4)
            return true
        }

        /// A string of printable ASCII without escapes.
        mutating func word() -> ArraySlice<UInt8>? {
            skipSpace()
            guard rest.first == UInt8(ascii: "\"") else { return nil }
            let inside = rest.dropFirst()
            let end = inside.firstIndex { $0 < 0x20 || $0 > 0x7E || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }
            guard let end, inside[end] == UInt8(ascii: "\"") else { return nil }
            rest = inside[(end + 1)...]
            return inside[..<end]
        }

        /// A whole number of up to 18 digits.
        mutating func integer() -> Int64? {
            skipSpace()
            var number: Int64 = 0
            var count = 0
            while let byte = rest.first, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9"), count < 18 {
                number = number * 10 + Int64(byte - UInt8(ascii: "0"))
                count += 1
                rest.removeFirst()
            }
            guard count > 0, let next = rest.first, ![UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E")].contains(next)
            else { return nil }
            return number
        }
    }
}
