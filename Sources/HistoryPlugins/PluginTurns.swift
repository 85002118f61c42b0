import DequeModule
package import PersistentHistory

/// Decides which conversation with a process has the turn.
extension CoprocessPlugin {
    /// How many calls one conversation may make while others wait: a long backlog of one consumer must not hold
    /// up the others.
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

    func begin(_ conversation: PluginConversation) {
        takeTurnBack()
        conversations.append(conversation)
        if case .over = stage {
            // The caller gets the answer only after this call has returned.
            try? HistoryLoop.shared().soon { self.leave(conversation, self.stopped) }
        } else if conversations.count == 1 {
            if mayNotSend(conversation) {
                try? HistoryLoop.shared().soon { self.pump() }
            } else {
                pump()
            }
        }
    }

    /// Sends the calls of the conversation that has the turn, as many ahead as the window allows.
    func pump() {
        takeTurnBack()
        guard case .running(let session) = stage, let first = conversations.first, !isWritingLong else {
            return
        }
        var conversation = first
        if conversation.succeeded == conversation.sent, conversation.sentInTurn >= Self.share, isAwaited {
            conversation.giveWay()
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
            if conversation.nextIsLong {
                writeLong(conversation, to: session)
                break
            }
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

    /// Ends the current turn, and gives it to the next conversation.
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

    // MARK: The free turn

    /// Sends the one call of a request from the caller's thread.
    ///
    /// - Returns: False if the turn is not free.
    nonisolated func sendAtOnce(_ request: HookRequest, of conversation: PluginConversation) -> Bool {
        guard let offer = turn.send(request, of: conversation) else { return false }
        if !offer.isTimed {
            try? HistoryLoop.shared().soon {
                self.takeTurnBack()
                self.watchTime()
            }
        }
        return true
    }

    /// Offers the turn to other threads if the loop has nothing to do for this plugin.
    func offerTurn() {
        guard case .running(let session) = stage, conversations.isEmpty, exchange.isIdle, outbox.count == 0,
            session.takesInput, !isWritingLong, !isFinishing.withLock(\.self)
        else { return }
        turn.offer(
            .init(id: exchange.nextID, input: session.child.input, isTimed: deadlineTimer != nil))
    }

    /// Takes the turn back: from now on only the loop sends, and it knows the call that was sent meanwhile.
    func takeTurnBack() {
        guard let call = turn.takeBack() else { return }
        exchange.send(at: call.time) { id in
            assert(id == call.id)
            return call.size
        }
        call.conversation.wasSent()
        conversations.append(call.conversation)
        outbox.lines(call.rest)
    }
}

/// The turn with an idle plugin. A store's thread that has one call writes it into the plugin's pipe itself, so
/// that the loop need not wake up before the plugin does.
///
/// The loop offers the turn. Before it does anything with the plugin, it takes the turn back, together with the
/// call that was sent meanwhile. Everything else of the plugin therefore stays on the loop. The lock is held
/// while a call is written, which never blocks.
final class FreeTurn: Sendable {
    struct Offer: Sendable {
        /// The id of the next call.
        let id: Int64
        /// The input of a process that has answered everything, and whose pipe therefore has room.
        let input: Descriptor
        /// Whether the loop will check the call's timeout by itself.
        let isTimed: Bool
    }

    /// A call that was sent, and that the loop does not know yet.
    struct SentCall: Sendable {
        let conversation: PluginConversation
        let id: Int64
        let size: Int
        let time: CoprocessProtocol.Instant
        /// The bytes for which the pipe had no room.
        let rest: [UInt8]
    }

    private enum State {
        case withdrawn
        case offered(Offer)
        case taken(SentCall)
        /// The turn is not offered any more.
        case ended
    }

    private let state = Locked(State.withdrawn)

    // MARK: The loop

    func offer(_ offer: Offer) {
        state.withLock { state in if case .withdrawn = state { state = .offered(offer) } }
    }

    /// - Returns: The call that was sent since the offer.
    func takeBack() -> SentCall? {
        state.withLock { state in
            switch state {
            case .withdrawn, .ended: return nil
            case .offered:
                state = .withdrawn
                return nil
            case .taken(let call):
                state = .withdrawn
                return call
            }
        }
    }

    /// Ends the offers: from now on only the loop sends calls.
    func end() {
        state.withLock { state in
            // A sent call is still to be taken back; the next offer then ends.
            if case .taken = state { return }
            state = .ended
        }
    }

    // MARK: Any thread

    /// Sends the one call of a request, if the turn is free.
    ///
    /// - Returns: The offer that was used; nil if the loop has to send the call.
    func send(_ request: HookRequest, of conversation: PluginConversation) -> Offer? {
        guard request.callCount == 1, case .offered(let offer) = state.withLock(\.self) else { return nil }
        // Written before the lock is taken, because a call may be long. If another thread is faster, the work
        // is wasted.
        var json = JSONBytes()
        request.write(call: 0, offer.id, to: &json)
        return state.withLock { state in
            guard case .offered(let current) = state, current.id == offer.id, current.input === offer.input
            else { return nil }
            let time = CoprocessProtocol.Instant.now
            // The loop will find any error of the pipe.
            let count = (try? json.bytes.withBytes { try offer.input.writeNow($0) }) ?? 0
            guard count > 0 else { return nil }
            let rest = count == json.count ? [] : Array(json.bytes.array[count...])
            state = .taken(
                SentCall(conversation: conversation, id: offer.id, size: json.count, time: time, rest: rest))
            return offer
        }
    }
}

extension HookRequest {
    var callCount: Int { if case .observe(let calls) = self { calls.count } else { 1 } }

    /// Writes one of its calls.
    func write(call index: Int, _ id: Int64, to json: inout JSONBytes) {
        switch self {
        case .observe(let calls):
            CallJSON.writeRequest(id, .observe, to: &json) { calls[index].write(to: &$0) }
        case .merge(let call): CallJSON.writeRequest(id, call.method, to: &json) { call.write(to: &$0) }
        case .expired(let call): CallJSON.writeRequest(id, .expired, to: &json) { call.write(to: &$0) }
        }
    }
}
