/// Makes transactions of recorded rows: a transaction is the longest run of rows with one origin.
///
/// A value without I/O: rows go in, one after the other, and transactions come out.
struct TransactionAssembler {
    private let store: StoreID
    private let filter: HistoryFilter
    private let isReversed: Bool

    private var origin = Origin.undeclared(milliseconds: 0)
    private var isWanted = false
    private var isOpen = false
    private var last: Int64 = 0
    private var changes: [HistoryChange] = []
    /// Rows of the current run, including those that the filter leaves out.
    private(set) var runLength = 0

    init(store: StoreID, filter: HistoryFilter = HistoryFilter(), isReversed: Bool = false) {
        self.store = store
        self.filter = filter
        self.isReversed = isReversed
    }

    /// Whether the current run's transaction passed the filter, so that its changes are of use.
    var wantsChanges: Bool { isWanted }

    /// Changes of the current run that the filter selects.
    var changeCount: Int { changes.count }

    /// The time that a delete's tombstone carries.
    var timestamp: HistoryTimestamp { origin.timestamp }

    /// A row with another origin than the last one came: gives the transaction that ended, if it
    /// has changes that are wanted.
    mutating func begin(_ origin: Origin, at number: Int64) -> HistoryTransaction? {
        let finished = finish()
        self.origin = origin
        isWanted = filter.accepts(origin)
        isOpen = true
        last = number
        return finished
    }

    /// Counts a row to the current run.
    mutating func count(_ number: Int64) {
        if !isReversed { last = number }
        runLength += 1
    }

    mutating func append(_ change: HistoryChange) {
        // Most transactions have one.
        if changes.isEmpty { changes = [change] } else { changes.append(change) }
    }

    /// The transaction that names entities with unrecorded changes, at the end of the current run; nil where
    /// it is not wanted.
    func recreation(of entities: [String]) -> HistoryTransaction? {
        guard filter.accepts(recreated: entities, at: origin.timestamp) else { return nil }
        return HistoryTransaction(
            token: HistoryToken(store: store, number: last), author: nil, context: nil, processID: nil,
            timestamp: origin.timestamp, changes: [], recreated: entities)
    }

    /// Ends the current run.
    mutating func finish() -> HistoryTransaction? {
        defer {
            changes = []
            runLength = 0
            isOpen = false
        }
        guard isOpen, !changes.isEmpty else { return nil }
        return HistoryTransaction(
            HistoryToken(store: store, number: last), origin.authorship, origin.processID, origin.timestamp,
            .changes(isReversed ? changes.reversed() : changes))
    }
}
