import Glibc
import HistoryConfiguration
import PersistentHistory

/// A plugin's answer to one call.
struct PluginAnswer: Sendable, Hashable {
    enum Outcome: Sendable, Hashable {
        /// Usually an observer's.
        case null
        case text(String)
        /// A merge hook's result in its long form.
        case verdict(String, reject: [String])
        /// Any other JSON: an observer may answer anything.
        case other
        /// A JSON-RPC error's message, and what its `data` says about a retry.
        case refused(String, HookFailure.Advice? = nil)
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

    /// Reads one line as a JSON-RPC 2.0 response; nil if it is not one.
    init?(line: ArraySlice<UInt8>) {
        if line.count > LongMessage.bytes { assertMayWait() }
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
            // JSON has numbers that are not integers.
            let code = failure["code"]?.number?.double
            let number = code.map { Int64(exactly: $0).map { "\($0)" } ?? "\($0)" }
            let message = failure["message"]?.text ?? "error \(number ?? "without a message")"
            outcome =
                code == -32601
                ? .methodUnknown(message) : .refused(message, failure["data"].flatMap(HookFailure.Advice.init))
        } else if let result = response["result"] {
            outcome = Outcome(result)
        } else {
            // A response has one of the two (JSON-RPC 2.0, section 5).
            return nil
        }
    }

    /// How most programs report success: without blanks, and as Python's `json.dumps` does.
    private static let successes: [(head: StaticString, tail: StaticString)] = [
        (#"{"jsonrpc":"2.0","id":"#, #","result":null}"#),
        (#"{"jsonrpc": "2.0", "id": "#, #", "result": null}"#),
    ]

    /// The id, if the answer is one of these: nearly all are, and need no decoder.
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
                    // JSON does not allow leading zeros.
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
    /// Classifies a call's result.
    init(_ result: JSONValue) {
        if result.isNull {
            self = .null
        } else if let text = result.text {
            self = .text(text)
        } else {
            self = Self.mergeResult(result) ?? .other
        }
    }
}

// MARK: - Merge hooks

extension PluginAnswer.Outcome {
    fileprivate static func mergeResult(_ result: JSONValue) -> Self? {
        guard let members = result.object, let verdict = members["verdict"]?.text else { return nil }
        let reject = members["reject"].flatMap { $0.isNull ? nil : $0 }
        guard let texts = reject.map({ $0.array?.map(\.text) }) ?? [], !texts.contains(nil) else { return nil }
        return .verdict(verdict, reject: texts.compactMap(\.self))
    }
}

extension MergeResult {
    /// Reads a merge hook's result.
    ///
    /// - Throws: `HookFailure` with the reason `badAnswer`.
    init(_ outcome: PluginAnswer.Outcome, from hook: String) throws(HookFailure) {
        func verdict(_ text: String) throws(HookFailure) -> Verdict {
            guard let verdict = Verdict(rawValue: text) else {
                throw HookFailure(
                    .badAnswer,
                    "Hook \"\(hook)\" answered \"\(text.excerpt)\"; a merge result is goOn or finish.")
            }
            return verdict
        }
        switch outcome {
        case .text(let text): self.init(try verdict(text))
        case .verdict(let text, let reject):
            var rejected: Set<HistoryToken> = []
            for text in reject {
                guard let token = HistoryToken(text) else {
                    throw HookFailure(
                        .badAnswer, "Hook \"\(hook)\" rejected \"\(text.excerpt)\", which is not a token.")
                }
                rejected.insert(token)
            }
            self.init(try verdict(text), rejecting: rejected)
        case .null, .other, .refused, .methodUnknown:
            throw HookFailure(
                .badAnswer,
                "Hook \"\(hook)\" gave no merge result. A merge result is \"goOn\", \"finish\" or {\"verdict\":…,\"reject\":[…]}."
            )
        }
    }

    /// Reads what a oneshot merge hook printed: no output means `goOn`, and a bare word is accepted.
    init(printed bytes: [UInt8], by hook: String) throws(HookFailure) {
        let text = String(decoding: bytes, as: UTF8.self).trimmed
        if text.isEmpty {
            self.init(.goOn)
        } else if let verdict = Verdict(rawValue: text) {
            self.init(verdict)
        } else if let result = JSONReader.read(Array(text.utf8)).root {
            try self.init(PluginAnswer.Outcome(result), from: hook)
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

// MARK: - Failures

extension HookFailure.Advice {
    /// Reads the `data` of a JSON-RPC error; nil where it says nothing usable about a retry.
    init?(_ data: JSONValue) {
        guard let members = data.object else { return nil }
        if members["permanent"]?.bool == true {
            self = .permanent
        } else if let time = members["retryAfter"].flatMap(Self.time) {
            self = .retryAfter(min(time, HookFailure.longestRetryAfter))
        } else {
            return nil
        }
    }

    /// Durations are written as in the configuration: seconds, or text with a unit.
    private static func time(_ value: JSONValue) -> Duration? {
        if let text = value.text { return Duration(configured: text) }
        guard let seconds = value.number?.double, seconds >= 0, seconds.isFinite else { return nil }
        return .milliseconds(Int64(min(seconds * 1000, 1e12)))
    }
}

// MARK: - Contexts

extension ContextAnswer {
    /// Reads a plugin's answer to a context's call.
    ///
    /// - Throws: `HookFailure`.
    @LoopActor init(_ outcome: PluginAnswer.Outcome, to call: ContextCall, from plugin: CoprocessPlugin)
        throws(HookFailure)
    {
        self.init(try Self.result(outcome, to: call, plugin.title), process: plugin.process)
    }

    static func result(_ outcome: PluginAnswer.Outcome, to call: ContextCall, _ title: String)
        throws(HookFailure) -> Result
    {
        switch (outcome, call.request) {
        case (.refused(let message, _), _):
            throw HookFailure(
                .refused,
                "\(title) answered to \(call.method) with an error: \(message.excerptAsSentence)\(SandboxAdvice.text(after: nil, saying: message))"
            )
        case (.methodUnknown, .checkpoint): return .checkpointUnknown
        // The context is filled again in any case.
        case (.methodUnknown, .expired): return .done
        case (.methodUnknown(let message), _):
            throw HookFailure(
                .refused,
                "\(title) does not know the method \(call.method), which a context needs: \(message.excerptAsSentence)"
            )
        case (.null, .checkpoint): return .checkpoint(nil)
        case (.text(let text), .checkpoint):
            guard let token = HistoryToken(text) else {
                throw HookFailure(
                    .badAnswer, "\(title) answered to \(call.method) \"\(text.excerpt)\", which is not a token."
                )
            }
            return .checkpoint(token)
        case (_, .checkpoint):
            throw HookFailure(
                .badAnswer,
                "\(title) gave no answer to \(call.method). That is a token, or null where the context is to be filled."
            )
        default: return .done
        }
    }
}

// MARK: - Words

extension StringProtocol {
    /// A plugin's text as the end of a sentence, so that another sentence may follow.
    var excerptAsSentence: String { excerpt.asSentence }

    /// A plugin's text as part of a sentence: on one line, safe for a terminal, and short.
    var excerpt: String { printable(atMost: 200) }
}
