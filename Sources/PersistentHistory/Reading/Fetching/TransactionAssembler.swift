import GRDB
import GRDBSQLite
import Glibc

/// Assembles transactions from recorded rows: a transaction is the longest run of rows with one origin.
///
/// A value without I/O: it takes rows in order, and returns transactions.
struct TransactionAssembler {
    private let store: StoreID
    private let filter: HistoryFilter
    /// The pipeline's filter, which is asked for each transaction, selects everything.
    private let selectsAll: Bool
    private let isReversed: Bool

    private var origin = Origin.undeclared(milliseconds: 0)
    private var isWanted = false
    private var isOpen = false
    private var last: Int64 = 0
    private var changes: [HistoryChange] = []
    /// The number of rows in the current run, including those that the filter excludes.
    private(set) var runLength = 0
    /// The size of the current run's changes that the filter selects.
    private(set) var size = ReadSize()

    init(store: StoreID, filter: HistoryFilter = HistoryFilter(), isReversed: Bool = false) {
        self.store = store
        self.filter = filter
        selectsAll = filter == HistoryFilter()
        self.isReversed = isReversed
    }

    /// Whether the current run's transaction passed the filter, so that its changes are needed.
    var wantsChanges: Bool { isWanted }

    /// The time for a delete's tombstone.
    var timestamp: HistoryTimestamp { origin.timestamp }

    /// Starts a run with a new origin. Returns the transaction that ended, if it has wanted changes.
    mutating func begin(_ origin: Origin, at number: Int64) -> HistoryTransaction? {
        let finished = finish()
        self.origin = origin
        isWanted = selectsAll || filter.accepts(origin)
        isOpen = true
        last = number
        return finished
    }

    /// Counts a row of the current run.
    mutating func count(_ number: Int64) {
        if !isReversed { last = number }
        runLength += 1
    }

    mutating func append(_ change: HistoryChange, bytes: Int) {
        size.add(1, bytes: bytes)
        // Most transactions have one change.
        if changes.isEmpty { changes = [change] } else { changes.append(change) }
    }

    /// The transaction that names entities with unrecorded changes, at the end of the current run; nil if
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
            size = ReadSize()
            isOpen = false
        }
        guard isOpen, !changes.isEmpty else { return nil }
        return HistoryTransaction(
            HistoryToken(store: store, number: last), origin.authorship, origin.processID, origin.timestamp,
            .changes(isReversed ? changes.reversed() : changes))
    }
}

/// The origin of a run of rows, compared with each row's as bytes.
struct OriginRun: ~Copyable {
    private var text = ByteBuffer()
    private var milliseconds: Int64 = 0
    private(set) var isBegun = false
    private(set) var isUndeclared = false
    private(set) var origin = Origin.undeclared(milliseconds: 0)

    /// See `HistoryBatch.fingerprint`. Nil for a void row, too.
    var fingerprint: String? {
        guard isBegun else { return nil }
        return isUndeclared ? Self.fingerprint(milliseconds) : text.withBytes { HistoryBatch.fingerprint($0) }
    }

    /// The fingerprint of the run that a row belongs to.
    static func fingerprint(of row: OpaquePointer) -> String? {
        row.textBytes(1).map { HistoryBatch.fingerprint($0) }
            ?? fingerprint(sqlite3_column_int64(row, 1))
    }

    /// Whether a row belongs to the run with a fingerprint.
    static func hasFingerprint(_ fingerprint: String, _ row: OpaquePointer) -> Bool {
        // Nearly all are short enough to be their own fingerprint.
        row.isText(1, fingerprint) || self.fingerprint(of: row) == fingerprint
    }

    private static func fingerprint(_ milliseconds: Int64) -> String? {
        milliseconds > 0 ? String(milliseconds) : nil
    }

    /// - Parameters:
    ///   - bytes: The row's origin, if it is text.
    ///   - last: The previous run, mostly of the same author.
    mutating func begin(
        _ row: OpaquePointer, _ bytes: UnsafeBufferPointer<UInt8>?, like last: borrowing OriginRun
    ) {
        isBegun = true
        text.removeAll()
        if let bytes {
            isUndeclared = false
            text.append(bytes)
            origin = .declared(bytes, like: last.origin.authorship)
        } else {
            isUndeclared = true
            milliseconds = sqlite3_column_int64(row, 1)
            origin = .undeclared(milliseconds: milliseconds)
        }
    }

    func continues(with row: OpaquePointer, _ bytes: UnsafeBufferPointer<UInt8>?) -> Bool {
        guard isBegun else { return false }
        guard let bytes else {
            return isUndeclared && milliseconds == sqlite3_column_int64(row, 1)
        }
        return !isUndeclared && text.withBytes { $0.hasSameBytes(as: bytes) }
    }
}

extension Origin {
    /// The value of the column.
    init(_ value: DatabaseValue, like last: Authorship = .undeclared) {
        switch value.storage {
        case .string(let text): self = .declared(text, like: last)
        case .int64(let milliseconds): self = .undeclared(milliseconds: milliseconds)
        default: self = .undeclared(milliseconds: 0)
        }
    }
}
