import PersistentHistory

/// What the process answers: read when there is something, and handed to the conversation that has the turn.
extension CoprocessPlugin {
    /// Longer lines are nonsense.
    nonisolated static let maximumLine = 16 << 20
    /// Lines without anything on them are passed over, but not for ever.
    private static let maximumBlankLines = 1000

    func readAnswers(_ session: CoprocessSession) {
        takeTurnBack()
        defer { offerTurn() }
        let output = session.child.output
        do throws(SystemError) {
            repeat {
                guard let count = try output.readNow(into: &session.buffer) else { return }
                if count == 0 { return session.outputEnd.signal() }
                guard take(session.buffer[..<count], session) else { return }
                if count == session.buffer.count {
                    // A process that writes as fast as one reads would keep the loop from all others.
                    return try HistoryLoop.shared().soon { self.readAnswers(session) }
                }
                // Where all was read there is an edge to come, unless it is the end.
            } while output.isExpired
        } catch {
            killProcess(because: HookFailure(.badAnswer, "The output of \(title) could not be read: \(error)."))
            session.outputEnd.signal()
        }
    }

    /// - Returns: False if the process has lost step, and was killed.
    private func take(_ bytes: ArraySlice<UInt8>, _ session: CoprocessSession) -> Bool {
        var nonsense: String?
        var failure: HookFailure?
        var answered = false
        let now = CoprocessProtocol.Instant.now
        let conversation = conversations.first
        var rest = bytes
        while nonsense == nil, let (line, isCut) = session.splitter.next(&rest) {
            guard !Self.isBlank(line) else {
                session.blankLines += 1
                if session.blankLines > Self.maximumBlankLines { nonsense = "wrote only blank lines" }
                continue
            }
            session.blankLines = 0
            if !isCut, let id = PluginAnswer.success(line), let isWanted = exchange.receiveNull(id, at: now) {
                answered = true
                if isWanted { failure = accept(.null, conversation) ?? failure }
                continue
            }
            switch exchange.receive(isCut ? nil : PluginAnswer(line: line), at: now) {
            case .deliver(let outcome):
                answered = true
                failure = accept(outcome, conversation) ?? failure
            case .drop: answered = true
            case .nonsense(let what):
                nonsense = "\(what): \(String(decoding: line.prefix(1000), as: UTF8.self).excerpt)"
            }
        }
        if nonsense == nil, session.splitter.isOverLimit {
            nonsense = "wrote a line of more than \(Self.maximumLine) bytes"
        }
        if let failure {
            endTurn(failure)
        } else if let conversation, conversation.succeeded == conversation.count {
            endTurn(nil)
        }
        if let nonsense {
            killProcess(because: HookFailure(.badAnswer, "\(title) \(nonsense)."))
            session.outputEnd.signal()
            return false
        }
        if answered { pump() }
        return true
    }

    private func accept(_ outcome: PluginAnswer.Outcome, _ conversation: PluginConversation?) -> HookFailure? {
        noteWork()
        do throws(HookFailure) {
            try conversation?.accept(outcome, after: exchange.lastCallTime)
            return nil
        } catch {
            // The requests behind it were in vain.
            exchange.abandon()
            return error
        }
    }

    /// (A closure would check for each line that it is on the loop.)
    private nonisolated static func isBlank(_ line: ArraySlice<UInt8>) -> Bool { !line.contains { $0 > 0x20 } }
}
