/// Consumers that an operator moves.
extension StoreControl {
    /// How long to count what a move skips or repeats.
    private static let countingTime: Duration = .seconds(5)
    /// How long to search the history for a time.
    private static let searchTime: Duration = .seconds(20)

    /// Plans a move of a consumer. Nothing is changed.
    ///
    /// - Throws: `HistoryError`, with `.tokenExpired`, `.tokenForeign` or `.tokenAhead` if there is no
    ///   history to continue from.
    package func planMove(of consumer: String, to target: MoveTarget) async throws -> ConsumerMove {
        try await withSession { session in
            let position = try await session.ask(within: StoreSession.actionTimeout) {
                try $0.state.cursors.checkpoint(of: consumer)?.position ?? 0
            }
            let (source, store) = (session.source, session.store)
            let rule = store.consumers.first { $0.author.hasSameBytes(as: consumer) }?.rule ?? store.rule
            let hooks = session.hooks.hooks(store: session.store.name, consumer: consumer)
            return try await onPool { () async throws -> ConsumerMove in
                try source.reading(timeout: .seconds(1)) { reader in
                    let end = ContinuousClock.now + Self.searchTime
                    let to = try reader.position(of: target, until: end)
                    var move = ConsumerMove(
                        from: HistoryToken(store: reader.storeID, number: position),
                        to: HistoryToken(store: reader.storeID, number: to))
                    try move.count(
                        reader, hooks, rule, of: consumer, until: .now + Self.countingTime)
                    return move
                }
            }
        }
    }

    /// Moves a consumer. When it returns, the move is on the disk.
    ///
    /// - Parameters:
    ///   - token: A position of the history, as `planMove` finds it.
    ///   - skips: Whether it may go forward.
    ///   - peer: The process that asks, for the log.
    /// - Throws: `MoveRefused`, `HistoryError`. The consumer is then where it was.
    package func move(_ consumer: String, to token: HistoryToken, skips: Bool, by peer: String) async throws
        -> ConsumerMove
    {
        try await withSession { session in
            guard token.store == session.opened.storeID else {
                throw HistoryError.foreign(token, to: session.opened.storeID)
            }
            let requested = Locked<MoveRequest?>(nil)
            let limit = session.moveGrace + .seconds(10)
            var moved = try await firstAnswer(within: limit) { answer in
                let request = MoveRequest(to: token.number, skips: skips, by: peer, answer: answer)
                requested.withLock { $0 = request }
                session.perform { session in
                    guard !session.isClosed, let runner = session.runners[consumer] else {
                        return request.end(.failure(HistoryError.storeNotOpen))
                    }
                    runner.request(request)
                }
            }
            if moved == nil, requested.withLock({ $0 })?.withdraw() == false {
                // The move has begun. The store's thread may wait for a disk, and then answers with the
                // consumer's position.
                let cursor = try await session.ask(within: limit) {
                    try $0.state.cursors.checkpoint(of: consumer)?.position
                }
                if cursor == token.number { moved = ConsumerMove(from: token, to: token) }
            }
            guard let moved else { throw session.unresponsive(limit) }
            let connection = session.state.connection
            try await onPool { () async throws in try connection.syncToDisk() }
            return moved
        }
    }
}

extension StoreSession {
    /// How long a call in flight may continue when its consumer is to be moved.
    nonisolated var moveGrace: Duration { min(control.stopTimeout, .seconds(10)) }
}

extension HistorySource {
    /// The position that a move leads to, between two transactions.
    fileprivate func position(of target: MoveTarget, until end: ContinuousClock.Instant) throws -> Int64 {
        let bounds = try bounds()
        switch target {
        case .oldest: return bounds.floor
        case .newest: return bounds.end
        case .token(let token):
            try bounds.check(after: token)
            return try beginning(of: token.number, bounds)
        case .time(let time):
            var position = bounds.floor
            while position < bounds.end {
                let batch = try outlinedBatch(after: position)
                for transaction in batch.transactions {
                    if transaction.timestamp >= time { return position }
                    position = transaction.number
                }
                guard batch.end >= position, !batch.isLast else { break }
                position = batch.end
                if .now > end {
                    throw HistoryError(
                        .storeBusy, "The history is too long to look for \(time) in it.", hint: "Name a token.")
                }
            }
            return bounds.end
        }
    }

    /// A number inside a transaction with an author stands for its beginning: such a transaction is never
    /// delivered in part.
    private func beginning(of number: Int64, _ bounds: HistoryBounds) throws -> Int64 {
        guard number > bounds.floor, number < bounds.end, let recorder else { return number }
        let next = try outlinedBatch(after: number, through: number + 1, changes: 1).transactions.first
        guard let next, next.author != nil else { return number }
        let start = try recorder.start(of: next.token)
        return max(bounds.floor, min(number, start - 1))
    }
}

extension ConsumerMove {
    /// Counts what is between the two ends, as long as there is time.
    fileprivate mutating func count(
        _ source: any HistorySource, _ hooks: HookSet, _ rule: DeliveryRule, of consumer: String,
        until end: ContinuousClock.Instant
    ) throws {
        var position = min(from.number, to.number)
        let last = max(from.number, to.number)
        while position < last {
            let batch = try source.outlinedBatch(
                after: position, through: last, values: hooks.wantedValues)
            guard batch.end > position else { break }
            let relevant = rule.relevant(batch.transactions, after: position, to: consumer)
            transactions += relevant.count
            let plan = DeliveryPlan(
                relevant, hooks: hooks.transactionObservers, store: "", consumer: consumer, values: batch.values
            )
            calls += plan.runs.reduce(0) { $0 + $1.calls.count }
            // A merge hook is called once for the batch.
            calls += hooks.stages.count { hook in relevant.contains { hook.concerns($0, batch.values) } }
            position = batch.end
            if position < last, .now > end {
                isAtLeast = true
                break
            }
        }
    }
}
