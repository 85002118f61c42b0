import DequeModule
package import PersistentHistory

/// A list of calls to a coprocess, of which one at a time has the turn: requests are written ahead, so that a
/// pipe's latency is not paid for each.
@LoopActor final class PluginConversation: HookConversation {
    /// What is asked, and to whom the outcome goes.
    /// It is handed on several times: as one reference.
    private indirect enum Request {
        case hook(HookRequest, answer: @LoopActor (HookAnswer) -> Void)
        case context(ContextCall, answer: @LoopActor (Result<ContextAnswer, HookFailure>) -> Void)
    }

    private let request: Request
    let isOfObserver: Bool
    /// How many calls it has, and an observer's.
    let count: Int
    private let observerCalls: [ObserverCall]
    /// The process that it is meant for; nil for whichever runs.
    fileprivate let process: Int?
    private unowned let plugin: CoprocessPlugin
    /// Calls that were sent, those of this turn, and those that have succeeded.
    fileprivate(set) var sent = 0
    fileprivate var sentInTurn = 0
    fileprivate(set) var succeeded = 0
    private var result: MergeResult?
    private var contextResult: ContextAnswer?
    /// Of the calls that have succeeded.
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

    func wasSent() {
        sent += 1
        sentInTurn += 1
    }

    private func writeOther(_ id: Int64, to json: inout JSONBytes) {
        switch request {
        case .hook(let request, _): request.write(call: sent, id, to: &json)
        case .context(let call, _):
            CallJSON.writeRequest(id, method: call.method, to: &json) { call.write(to: &$0) }
        }
    }

    /// Takes the answer to the next call, and how many microseconds it took.
    func accept(_ outcome: PluginAnswer.Outcome, after time: Int64) throws(HookFailure) {
        // Whatever an observer answers that is no error will do.
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
        case (.refused(let message), _), (.methodUnknown(let message), _):
            throw HookFailure(.refused, "\(plugin.title) answered with an error: \(message.excerptAsSentence)")
        case (_, .hook(.merge(let call), _)): result = try MergeResult(outcome, from: call.header.hook)
        default: break
        }
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

    /// The process for which it was meant is gone.
    fileprivate func markNotMade() {
        contextResult = ContextAnswer(.notMade, process: plugin.process)
    }

    private static func cancelled(_ header: HookCallHeader) -> HookFailure {
        HookFailure(.cancelled, "The call of hook \"\(header.hook)\" was cancelled.")
    }
}

extension CoprocessPlugin {
    /// How many calls one may make while others wait, before it is their turn: a long backlog of
    /// one consumer does not keep the others waiting to its end.
    private static let share = 64

    /// Whether a conversation waits for its turn.
    var isAwaited: Bool { conversations.count > 1 }

    package nonisolated func begin(_ request: HookRequest, answer: @escaping @Sendable (HookAnswer) -> Void)
        -> any HookConversation
    {
        let conversation = PluginConversation(request, to: self) { answer($0) }
        if !sendAtOnce(request, of: conversation) {
            try? HistoryLoop.shared().soon { self.begin(conversation) }
        }
        return conversation
    }

    private func begin(_ conversation: PluginConversation) {
        takeTurnBack()
        conversations.append(conversation)
        if case .over = stage {
            // It is not answered before the caller is ready for that.
            try? HistoryLoop.shared().soon { self.leave(conversation, self.stopped) }
        } else if conversations.count == 1 {
            if mayNotSend(conversation) {
                try? HistoryLoop.shared().soon { self.pump() }
            } else {
                pump()
            }
        }
    }

    /// Sends what the one that has the turn may send, as many calls ahead as the window allows.
    func pump() {
        takeTurnBack()
        guard case .running(let session) = stage, let first = conversations.first else { return }
        var conversation = first
        if conversation.succeeded == conversation.sent, conversation.sentInTurn >= Self.share, isAwaited {
            conversation.sentInTurn = 0
            conversations.append(conversations.removeFirst())
            conversation = conversations[0]
        }
        if mayNotSend(conversation), conversation.succeeded == conversation.sent {
            endTurn(nil)
            return pump()
        }
        if conversation.sent == 0, let process = conversation.process, process != self.process {
            conversation.markNotMade()
            endTurn(nil)
            return pump()
        }
        if mayNotSend(conversation) { return }
        var hasSent = false
        while conversation.sent < conversation.count, exchange.hasRoom,
            conversation.sentInTurn < Self.share || !isAwaited
        {
            exchange.send(at: .now) { id in
                let before = outbox.count
                conversation.write(id, to: &outbox)
                return outbox.count - before
            }
            hasSent = true
        }
        guard hasSent else { return }
        flush(session)
        watchTime()
    }

    package nonisolated func finishCalls() {
        isFinishing.withLock { $0 = true }
        turn.end()
        try? HistoryLoop.shared().soon { self.pump() }
    }

    private func mayNotSend(_ conversation: PluginConversation) -> Bool {
        conversation.isOfObserver && isFinishing.withLock { $0 }
    }

    /// The turn goes to the next.
    func endTurn(_ failure: HookFailure?) {
        guard let conversation = conversations.popFirst() else { return }
        exchange.abandon()
        conversation.end(failure)
    }

    func leave(_ conversation: PluginConversation, _ failure: HookFailure? = nil) {
        takeTurnBack()
        guard let index = conversations.firstIndex(where: { $0 === conversation }) else { return }
        conversations.remove(at: index)
        if index == 0 { exchange.abandon() }
        conversation.end(failure)
        pump()
    }

    // MARK: For callers that wait in a task

    package nonisolated func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        if case .observed(let outcome) = await answer(to: .observe(calls)) { return outcome }
        return ObserverOutcome(succeeded: 0)
    }

    package nonisolated func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        guard case .merged(let result) = await answer(to: .merge(call)) else { throw stopped }
        return try result.get()
    }

    package nonisolated func expired(_ call: ExpiredCall) async throws(HookFailure) {
        if case .expired(let failure?) = await answer(to: .expired(call)) { throw failure }
    }

    private func answer(to request: HookRequest) async -> HookAnswer {
        await outcome {
            PluginConversation(request, to: self, answer: $0)
        } begin: { conversation in
            if !sendAtOnce(request, of: conversation) { begin(conversation) }
        }
    }

    package nonisolated func call(_ call: ContextCall, of process: Int?) async throws(HookFailure)
        -> ContextAnswer
    {
        try await makeCall(call, of: process).get()
    }

    private func makeCall(_ call: ContextCall, of process: Int?) async -> Result<ContextAnswer, HookFailure> {
        await outcome {
            PluginConversation(call, of: process, to: self, answer: $0)
        } begin: {
            begin($0)
        }
    }

    private func outcome<T: Sendable>(
        _ make: (@escaping @LoopActor (T) -> Void) -> PluginConversation,
        begin: (PluginConversation) -> Void
    ) async -> T {
        let waiter = Locked<CheckedContinuation<T, Never>?>(nil)
        let conversation = make { answer in
            waiter.withLock { $0.take() }?.resume(returning: answer)
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiter.withLock { $0 = continuation }
                begin(conversation)
            }
        } onCancel: {
            // After it has begun: that is on the loop as well.
            conversation.cancel()
        }
    }
}
