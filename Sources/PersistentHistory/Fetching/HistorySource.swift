/// A store's history, whoever records it: the fetcher, the consumers and the feeds know it by this alone.
///
/// What can be done only with a store in which historyd records (rows are read, contexts are filled, history is
/// cleaned) asks for a `HistoryReader`.
protocol HistorySource: Sendable {
    // MARK: Identity

    /// The store's file, whose changes are the wake-ups.
    var path: String { get }
    var storeID: StoreID { get }
    /// Another one after each change of the schema.
    func schemaVersion() throws -> Int64

    // MARK: Positions

    func newestToken() throws -> HistoryToken
    /// The oldest token after which the history can be read.
    func oldestToken() throws -> HistoryToken
    /// The newest position, and its fingerprint.
    func end() throws -> (number: Int64, fingerprint: String?)
    /// Checks that everything after a token is still there.
    func check(after token: HistoryToken) throws
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
    /// The next transactions, a large one with all its changes.
    func batch(
        after number: Int64, isPosition: Bool, through last: Int64, changes limit: Int, filter: HistoryFilter
    ) throws -> HistoryBatch

    // MARK: Connections

    /// Another connection to the same store, for reading that takes long: no other reader waits for it.
    ///
    /// - Parameter timeout: How long to wait for a lock that another process holds.
    func another(timeout: Duration) throws -> any HistorySource
    func close() throws

    // MARK: Large transactions

    /// A transaction with more changes is read in parts.
    var partSize: Int { get }
    func changes(_ unread: UnreadChanges) throws -> (changes: [HistoryChange], values: RowValues?)
    func changes(at numbers: [Int64], of transaction: HistoryTransaction, values: WantedValues?) throws
        -> (changes: [HistoryChange], values: RowValues?)
    func forEachPart(
        of transaction: HistoryTransaction, _ body: ([(number: Int64, change: HistoryChange)]) throws -> Void
    ) throws
}

extension HistoryReader: HistorySource {}

extension HistorySource {
    func outlinedBatch(
        after number: Int64, through last: Int64 = .max, changes limit: Int = HistoryReader.batchSize,
        values: WantedValues? = nil
    ) throws -> HistoryBatch {
        try outlinedBatch(after: number, isPosition: true, through: last, changes: limit, values: values)
    }

    func batch(afterPosition number: Int64) throws -> HistoryBatch {
        try batch(
            after: number, isPosition: true, through: .max, changes: HistoryReader.batchSize,
            filter: HistoryFilter())
    }

    /// A transaction with all its changes, however many: for what cannot take it in parts.
    ///
    /// - Throws: As `forEachPart(of:_:)`.
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

/// What a look at a store finds.
struct HistoryLook: Sendable {
    let batch: HistoryBatch
    /// Where the history ended, with its fingerprint: beyond a batch that is not the last.
    let end: Int64
    let fingerprint: String?
    /// Another one after each change of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
    let schemaVersion: Int64
}
