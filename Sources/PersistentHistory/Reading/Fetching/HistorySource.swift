/// A store's history, whatever records it. The fetcher, the consumers and the feeds use only this.
///
/// Operations that need a store in which historyd records use its `recorder`.
protocol HistorySource: HistoryReading {
    // MARK: Identity

    /// The file that is read.
    ///
    /// - Throws: `HistoryError` with `.storeBusy` if the path leads to another one by now, or to none.
    func file() throws -> FileID
    /// Changes with each change of the schema.
    func schemaVersion() throws -> Int64

    // MARK: Positions

    func bounds() throws -> HistoryBounds
    /// The newest position, and its fingerprint.
    func end() throws -> (number: Int64, fingerprint: String?)
    /// The fingerprint of a position, which distinguishes it from the same number in a restored store;
    /// see `HistoryBatch.fingerprint`.
    func fingerprint(at number: Int64, in batch: HistoryBatch?) throws -> String?
    /// Whether another change is at a position than the one of this fingerprint.
    func isReplaced(_ fingerprint: String?, at number: Int64) throws -> Bool

    // MARK: Fetching

    /// What came after a position, in one read transaction with everything needed to know that it follows
    /// it.
    func look(after number: Int64, fingerprint: String?, values: WantedValues?) throws -> HistoryLook
    /// The next transactions. A large one is alone, without its changes.
    func outlinedBatch(
        after number: Int64, isPosition: Bool, through last: Int64, changes limit: Int, values: WantedValues?
    ) throws -> HistoryBatch
    /// The next transactions that a filter selects; 0 starts at the beginning of the history. A large one
    /// is alone, without its changes.
    func page(after number: Int64, filter: HistoryFilter) throws -> HistoryBatch
    /// The same backwards; nil starts at the newest.
    func reversedPage(before number: Int64?, filter: HistoryFilter) throws -> HistoryBatch
    /// When the first transaction after a position was made; nil if there is none.
    func time(after number: Int64) throws -> HistoryTimestamp?

    /// The backlog after a position, in bounded time.
    func backlog(after position: Int64) throws -> Backlog

    // MARK: Capabilities

    /// The reader of a store in which historyd records: its rows can be read, contexts filled, history
    /// cleaned. Nil if another program records, and the store is only read.
    var recorder: HistoryReader? { get }

    // MARK: Connections

    /// Stops waiting for locks that other processes hold.
    func stopWaitingForLocks() throws
    /// Frees the pages in memory.
    func forgetPages()
    /// Another connection to the same store, for long reads: no other reader waits for it.
    ///
    /// - Parameter timeout: How long to wait for a lock that another process holds.
    func another(timeout: Duration) throws -> any HistorySource

    // MARK: Large transactions

    /// A transaction with more changes is read in parts.
    var partSize: Int { get }
    func changes(_ unread: UnreadChanges) throws -> (changes: [HistoryChange], values: RowValues?)
    func changes(at numbers: [Int64], of transaction: HistoryTransaction, values: WantedValues?) throws
        -> (changes: [HistoryChange], values: RowValues?)
    /// The changes of `changes(_:)` with their numbers, without rows.
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

    /// The checkpoint to save when a position is reached now.
    func checkpoint(at number: Int64, _ clock: HistoryClock) throws -> Checkpoint {
        Checkpoint(position: number, fingerprint: try fingerprint(at: number, in: nil), movedAt: clock.wall())
    }

    /// Reads a large transaction part by part, each change with its number.
    ///
    /// It uses a separate connection, which waits for a writer's lock, and for which no other reader
    /// waits.
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

    /// Reads through another connection, for which no other reader waits.
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

    /// A transaction with all its changes, however many, for a receiver that takes no parts.
    func whole(_ transaction: HistoryTransaction) throws -> HistoryTransaction {
        guard transaction.outline != nil else { return transaction }
        var changes: [HistoryChange] = []
        try forEachPart(of: transaction) { changes += $0.map(\.change) }
        return transaction.with(changes)
    }

    /// The error for another transaction at a token's position.
    func ahead(_ number: Int64) -> HistoryError {
        HistoryError(
            .tokenAhead,
            "The transaction \(HistoryToken(store: storeID, number: number)) is no longer the same transaction.",
            hint: "The store was replaced or restored from a backup: start over from a copy of the data.")
    }
}
