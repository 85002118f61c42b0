import PersistentHistory

/// A list of calls to a coprocess. One conversation at a time has the turn. Requests are written ahead, so that
/// the pipe's latency does not add up.
@LoopActor final class PluginConversation: HookConversation {
    /// The request, and where its outcome goes. It is passed on several times, so it is a single reference.
    private indirect enum Request {
        case hook(HookRequest, answer: @LoopActor (HookAnswer) -> Void)
        case context(ContextCall, answer: @LoopActor (Result<ContextAnswer, HookFailure>) -> Void)
    }

    private let request: Request
    let isOfObserver: Bool
    /// The number of calls; an observer's calls.
    let count: Int
    private let observerCalls: [ObserverCall]
    /// The process that it is meant for; nil for whichever runs.
    let process: Int?
    private unowned let plugin: CoprocessPlugin
    /// The number of calls that were sent, that were sent in this turn, and that have succeeded.
    private(set) var sent = 0
    private(set) var sentInTurn = 0
    private(set) var succeeded = 0
    private var result: MergeResult?
    private var contextResult: ContextAnswer?
    /// How long the successful calls took.
    private var microseconds: [Int64] = []

    nonisolated init(
        _ request: HookRequest, to plugin: CoprocessPlugin, answer: @escaping @LoopActor (HookAnswer) -> Void
    ) {
        self.request = .hook(request, answer: answer)
        if case .observe(let calls) = request {
            (isOfObserver, count, observerCalls) = (true, calls.count, calls)
        } else {
            (isOfObserver, count, observerCalls) = (false, 1, [])
        }
        process = nil
        self.plugin = plugin
    }

    init(
        _ call: ContextCall, of process: Int?, to plugin: CoprocessPlugin,
        answer: @escaping @LoopActor (Result<ContextAnswer, HookFailure>) -> Void
    ) {
        request = .context(call, answer: answer)
        (isOfObserver, count, observerCalls) = (false, 1, [])
        self.process = process
        self.plugin = plugin
    }

    nonisolated func cancel() { try? HistoryLoop.shared().soon { self.plugin.leave(self) } }

    func write(_ id: Int64, to json: inout JSONBytes) {
        if isOfObserver {
            CallJSON.writeRequest(id, .observe, to: &json) { observerCalls[sent].write(to: &$0) }
        } else {
            writeOther(id, to: &json)
        }
        wasSent()
    }

    /// Whether the next call is a long message.
    var nextIsLong: Bool {
        if isOfObserver { return observerCalls[sent].isLonger(than: LongMessage.bytes) }
        switch request {
        case .hook(.merge(let call), _): return call.isLonger(than: LongMessage.bytes)
        case .context(let call, _): return call.isLonger(than: LongMessage.bytes)
        default: return false
        }
    }

    /// Writes the next call. May run on any thread.
    var nextCall: @Sendable (_ id: Int64, _ json: inout JSONBytes) -> Void {
        switch request {
        case .hook(let request, _):
            let index = sent
            return { request.write(call: index, $0, to: &$1) }
        case .context(let call, _):
            return { CallJSON.writeRequest($0, method: call.method, to: &$1) { call.write(to: &$0) } }
        }
    }

    func wasSent() {
        sent += 1
        sentInTurn += 1
    }

    /// Starts a new share of calls, after the turn was given to another conversation.
    func giveWay() { sentInTurn = 0 }

    private func writeOther(_ id: Int64, to json: inout JSONBytes) {
        switch request {
        case .hook(let request, _): request.write(call: sent, id, to: &json)
        case .context(let call, _):
            CallJSON.writeRequest(id, method: call.method, to: &json) {
                call.write(plugin.largeIntegers, to: &$0)
            }
        }
    }

    /// Takes the answer to the next call, and how many microseconds the call took.
    func accept(_ outcome: PluginAnswer.Outcome, after time: Int64) throws(HookFailure) {
        // An observer may answer anything that is not an error.
        if isOfObserver, !outcome.isError {
            microseconds.append(time)
        } else {
            try acceptOther(outcome)
        }
        succeeded += 1
    }

    private func acceptOther(_ outcome: PluginAnswer.Outcome) throws(HookFailure) {
        switch (outcome, request) {
        case (_, .context(let call, _)): contextResult = try ContextAnswer(outcome, to: call, from: plugin)
        // A plugin that does not know of expiry has nothing to start over.
        case (.methodUnknown, .hook(.expired, _)): break
        case (.refused(let message, let advice), _):
            throw refusal(message, advice)
        case (.methodUnknown(let message), _): throw refusal(message)
        // A call with groups is an observer's: any answer but an error is accepted.
        case (_, .hook(.merge(let call), _)) where call.groups != nil: result = .goOn
        case (_, .hook(.merge(let call), _)): result = try MergeResult(outcome, from: call.header.hook)
        default: break
        }
    }

    private func refusal(_ message: String, _ advice: HookFailure.Advice? = nil) -> HookFailure {
        HookFailure(
            .refused, "\(plugin.title) answered with an error: \(message.excerptAsSentence)", advice: advice)
    }

    func end(_ failure: HookFailure?) {
        switch request {
        case .hook(.observe, let answer):
            answer(
                .observed(
                    ObserverOutcome(succeeded: succeeded, failure: failure, microseconds: microseconds)))
        case .hook(.merge(let call), let answer):
            answer(.merged(result.map { .success($0) } ?? .failure(failure ?? Self.cancelled(call.header))))
        case .hook(.expired(let call), let answer):
            answer(.expired(succeeded > 0 ? nil : failure ?? Self.cancelled(call.header)))
        case .context(let call, let answer):
            let failure = failure ?? HookFailure(.cancelled, "The call \(call.method) was cancelled.")
            answer(contextResult.map { .success($0) } ?? .failure(failure))
        }
    }

    /// Marks the calls as not made: their process is gone.
    func markNotMade() {
        contextResult = ContextAnswer(.notMade, process: plugin.process)
    }

    private static func cancelled(_ header: HookCallHeader) -> HookFailure {
        HookFailure(.cancelled, "The call of hook \"\(header.hook)\" was cancelled.")
    }
}

// MARK: - Answers

/// Reads the process's answers as they arrive, and passes them to the conversation that has the turn.
extension CoprocessPlugin {
    /// Longer lines are invalid. The longest meaningful answer is a merge hook's that rejects a whole batch:
    /// 5,000 tokens.
    nonisolated static let maximumLine = 1 << 20
    /// Blank lines are skipped, but not without end.
    private static let maximumBlankLines = 1000

    func readAnswers(_ session: CoprocessSession) {
        // Reading continues after the long answer.
        if session.isReadingLong { return }
        takeTurnBack()
        defer { offerTurn() }
        let output = session.child.output
        do throws(SystemError) {
            repeat {
                guard let count = try output.readNow(into: &session.buffer) else { return }
                if count == 0 { return session.outputEnd.signal() }
                guard take(then: session.buffer[..<count], session) else { return }
                if count == session.buffer.count {
                    // A process that writes as fast as it is read must not monopolize the loop.
                    return try HistoryLoop.shared().soon { self.readAnswers(session) }
                }
                // Once everything is read, epoll reports the next data, unless this is the end.
            } while output.isExpired
        } catch {
            killProcess(because: HookFailure(.badAnswer, "The output of \(title) could not be read: \(error)."))
            session.outputEnd.signal()
        }
    }

    /// - Parameters:
    ///   - known: An answer that was read already, which precedes the bytes.
    ///   - line: The line of that answer.
    ///   - bytes: The bytes that were read.
    /// - Returns: False if nothing more is to be read now: the process has lost synchronization and was killed,
    ///   or an answer is long.
    func take(
        _ known: PluginAnswer?? = nil, of line: ArraySlice<UInt8> = [], then bytes: ArraySlice<UInt8>,
        _ session: CoprocessSession
    ) -> Bool {
        var nonsense: String?
        var failure: HookFailure?
        var answered = false
        let now = CoprocessProtocol.Instant.now
        let conversation = conversations.first
        func receive(_ answer: PluginAnswer?, _ line: ArraySlice<UInt8>) {
            switch exchange.receive(answer, at: now) {
            case .deliver(let outcome):
                answered = true
                failure = accept(outcome, conversation) ?? failure
            case .drop: answered = true
            case .nonsense(let what):
                nonsense = "\(what): \(String(decoding: line.prefix(1000), as: UTF8.self).excerpt)"
            }
        }
        if let known { receive(known, line) }
        var rest = bytes
        var long: [UInt8]?
        while nonsense == nil, long == nil, let (line, isCut) = session.splitter.next(&rest) {
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
            if !isCut, line.count > LongMessage.bytes {
                long = Array(line)
            } else {
                receive(isCut ? nil : PluginAnswer(line: line), line)
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
        guard let long else { return true }
        readLong(long, then: Array(rest), session)
        return false
    }

    private func accept(_ outcome: PluginAnswer.Outcome, _ conversation: PluginConversation?) -> HookFailure? {
        noteWork()
        do throws(HookFailure) {
            try conversation?.accept(outcome, after: exchange.lastCallTime)
            return nil
        } catch {
            // The requests that were sent after it are void.
            exchange.abandon()
            return error
        }
    }

    /// (A closure would check for each line that it runs on the loop.)
    private nonisolated static func isBlank(_ line: ArraySlice<UInt8>) -> Bool { !line.contains { $0 > 0x20 } }
}
