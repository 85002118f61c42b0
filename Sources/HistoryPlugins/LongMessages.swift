import PersistentHistory

/// Messages of a plugin that are long enough to block the loop: they are read and written on another thread,
/// and only the plugin waits meanwhile.
enum LongMessage {
    /// A longer message takes some milliseconds of work.
    static let bytes = 1 << 16
}

// MARK: - Answers

extension CoprocessPlugin {
    /// Reads an answer on another thread. Until that is done, nothing more is read from the process.
    ///
    /// - Parameter rest: The bytes that followed the line.
    func readLong(_ line: [UInt8], then rest: [UInt8], _ session: CoprocessSession) {
        session.isReadingLong = true
        BlockingThreads.shared.run {
            let answer = PluginAnswer(line: line[...])
            // Without a loop there is no plugin.
            try? HistoryLoop.shared().soon {
                session.isReadingLong = false
                guard !session.isOver else { return }
                self.takeTurnBack()
                if self.take(answer, of: line[...], then: rest[...], session) { self.readAnswers(session) }
                self.offerTurn()
            }
        }
    }
}

// MARK: - Calls

extension CoprocessPlugin {
    /// Writes the next call of a conversation on another thread. Until that is done, nothing more is sent.
    func writeLong(_ conversation: PluginConversation, to session: CoprocessSession) {
        isWritingLong = true
        let (id, call) = (exchange.nextID, conversation.nextCall)
        BlockingThreads.shared.run {
            var json = JSONBytes()
            call(id, &json)
            let bytes = json.bytes.array
            try? HistoryLoop.shared().soon { self.send(bytes, of: conversation, to: session) }
        }
    }

    private func send(_ bytes: [UInt8], of conversation: PluginConversation, to session: CoprocessSession) {
        takeTurnBack()
        isWritingLong = false
        defer { offerTurn() }
        // The process may be another one by now, or the caller may no longer wait.
        guard case .running(let current) = stage, current === session, conversations.first === conversation,
            exchange.hasRoom
        else { return pump() }
        exchange.send(at: .now) { _ in
            outbox.lines(bytes)
            return bytes.count
        }
        conversation.wasSent()
        flush(session)
        watchTime()
        pump()
    }
}
