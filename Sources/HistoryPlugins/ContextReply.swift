import PersistentHistory

extension ContextAnswer {
    /// Reads what a plugin answered to a context's call.
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
        case (.refused(let message), _):
            throw HookFailure(
                .refused, "\(title) answered to \(call.method) with an error: \(message.excerptAsSentence)")
        case (.methodUnknown, .checkpoint): return .checkpointUnknown
        // It is filled again, which is enough.
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
