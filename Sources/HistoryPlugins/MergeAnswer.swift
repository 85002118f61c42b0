import HistoryConfiguration
import PersistentHistory

/// A merge result in its long form.
struct MergeVerdict: Sendable, Hashable {
    let verdict: String
    let reject: [String]
}

extension MergeVerdict {
    init?(_ result: JSONValue) {
        guard let members = result.object, let verdict = members["verdict"]?.text else { return nil }
        let reject = members["reject"].flatMap { $0.isNull ? nil : $0 }
        guard let texts = reject.map({ $0.array?.map(\.text) }) ?? [], !texts.contains(nil) else { return nil }
        self.init(verdict: verdict, reject: texts.compactMap(\.self))
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
        case .verdict(let answer):
            var rejected: Set<HistoryToken> = []
            for text in answer.reject {
                guard let token = HistoryToken(text) else {
                    throw HookFailure(
                        .badAnswer, "Hook \"\(hook)\" rejected \"\(text.excerpt)\", which is not a token.")
                }
                rejected.insert(token)
            }
            self.init(try verdict(answer.verdict), rejecting: rejected)
        case .null, .other, .refused, .methodUnknown:
            throw HookFailure(
                .badAnswer,
                "Hook \"\(hook)\" gave no merge result. A merge result is \"goOn\", \"finish\" or {\"verdict\":…,\"reject\":[…]}."
            )
        }
    }

    /// Reads what a oneshot merge hook printed: nothing at all is `goOn`, and a bare word will do.
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
