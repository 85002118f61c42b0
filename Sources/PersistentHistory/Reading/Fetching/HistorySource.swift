/// A store's history, whoever records it: the fetcher, the consumers and the feeds know it by this alone.
///
/// What can be done only with a store in which historyd records asks for its `recorder`.
protocol HistorySource: HistoryReading {
    // MARK: Identity

    /// Another one after each change of the schema.
    func schemaVersion() throws -> Int64

    // MARK: Positions

    func bounds() throws -> HistoryBounds
    /// The newest position, and its fingerprint.
    func end() throws -> (number: Int64, fingerprint: String?)
    /// What tells a position from one of its number in a store that was restored; see `HistoryBatch.fingerprint`.
    func fingerprint(at number: Int64, in batch: HistoryBatch?) throws -> String?
    /// Whether another change stands at a position than the one whose fingerprint is given.
    func isReplaced(_ fingerprint: String?, at number: Int64) throws -> Bool

    // MARK: Fetching

    /// What came after a position, in one read transaction with all that it takes to know that it follows it.
    func look(after number: Int64, fingerprint: String?, values: WantedValues?) throws -> HistoryLook
    /// The next transactions; a large one without its changes, and alone.
    func outlinedBatch(
        after number: Int64, isPosition: Bool, through last: Int64, changes limit: Int, values: WantedValues?
    ) throws -> HistoryBatch
    /// The next transactions that a filter selects, from the first of the history on with 0. A large one is alone, and
    /// without its changes.
    func page(after number: Int64, filter: HistoryFilter) throws -> HistoryBatch
    /// The same backwards; from the newest on with nil.
    func reversedPage(before number: Int64?, filter: HistoryFilter) throws -> HistoryBatch
    /// When the first transaction after a position was made; nil if there is none.
    func time(after number: Int64) throws -> HistoryTimestamp?

    /// What lies after a position, in bounded time.
    func backlog(after position: Int64) throws -> Backlog

    // MARK: Capabilities

    /// The same, as a store in which historyd records: its rows are read, contexts are filled, history is cleaned. Nil
    /// where another program records, and the store is only read.
    var recorder: HistoryReader? { get }

    // MARK: Connections

    /// From now on it waits for no lock that another process holds.
    func stopWaitingForLocks() throws
    /// Gives back the pages that it has in memory.
    func forgetPages()
    /// Another connection to the same store, for reading that takes long: no other reader waits for it.
    ///
    /// - Parameter timeout: How long to wait for a lock that another process holds.
    func another(timeout: Duration) throws -> any HistorySource

    // MARK: Large transactions

    /// A transaction with more changes is read in parts.
    var partSize: Int { get }
    func changes(_ unread: UnreadChanges) throws -> (changes: [HistoryChange], values: RowValues?)
    func changes(at numbers: [Int64], of transaction: HistoryTransaction, values: WantedValues?) throws
        -> (changes: [HistoryChange], values: RowValues?)
    /// Those of `changes(_:)` with their numbers, without rows.
    func numberedChanges(_ unread: UnreadChanges) throws -> [(number: Int64, change: HistoryChange)]
}

extension HistoryReader: HistorySource {
    var recorder: HistoryReader? { self }
}

extension HistorySource {
    func outlinedBatch(
        after number: Int64, through last: Int64 = .max, changes limit: Int = HistoryReader.batchSize,
        values: WantedValues? = nil
    ) throws -> HistoryBatch {
        try outlinedBatch(after: number, isPosition: true, through: last, changes: limit, values: values)
    }

    /// What is saved of a position that is reached now.
    func checkpoint(at number: Int64, _ clock: HistoryClock) throws -> Checkpoint {
        Checkpoint(position: number, fingerprint: try fingerprint(at: number, in: nil), movedAt: clock.wall())
    }

    /// Reads a large transaction part by part, each change with its number.
    ///
    /// It is read by a connection of its own, which waits for a writer's lock, and for which no other reader waits.
    func forEachPart(
        of transaction: HistoryTransaction, _ body: ([(number: Int64, change: HistoryChange)]) throws -> Void
    ) throws {
        try reading(timeout: .seconds(1)) { reader in
            for part in UnreadChanges.parts(of: transaction) {
                try Task.checkCancellation()
                try body(try reader.numberedChanges(part))
            }
        }
    }

    /// Reads by another connection, for which no other reader waits.
    func reading<T>(timeout: Duration, _ body: (any HistorySource) throws -> T) throws -> T {
        let own = try another(timeout: timeout)
        let result = Result { try body(own) }
        try own.close()
        return try result.get()
    }

    func check<T>(_ changes: [T], _ count: Int, of transaction: HistoryTransaction) throws -> [T] {
        if changes.count == count { return changes }
        throw UnexpectedValue("the transaction \(transaction.number) lacks changes that it had before")
    }

    /// A transaction with all its changes, however many: for what cannot take it in parts.
    func whole(_ transaction: HistoryTransaction) throws -> HistoryTransaction {
        guard transaction.outline != nil else { return transaction }
        var changes: [HistoryChange] = []
        try forEachPart(of: transaction) { changes += $0.map(\.change) }
        return transaction.with(changes)
    }

    /// There is now another transaction at a token's position.
    func ahead(_ number: Int64) -> HistoryError {
        HistoryError(
            .tokenAhead,
            "The transaction \(HistoryToken(store: storeID, number: number)) is no longer the same transaction.",
            hint: "The store was replaced or restored from a backup: start over from a copy of the data.")
    }
}
