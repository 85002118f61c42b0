/// Decides whether a call is so large that writing it takes long. The check stops as soon as that is
/// certain.
extension ObserverCall {
    package func isLonger(than bytes: Int) -> Bool {
        var size = SizeEstimate(kept, limit: bytes)
        return size.exceeds(changes, values)
    }
}

extension MergeCall {
    package func isLonger(than bytes: Int) -> Bool {
        var size = SizeEstimate(kept, limit: bytes)
        return size.isExceeded || transactions.contains { size.exceeds($0.changes[...], values) }
    }
}

extension ContextCall {
    package func isLonger(than bytes: Int) -> Bool {
        guard case .merge(let transactions, _, _, _) = request else { return false }
        var size = SizeEstimate(nil, limit: bytes)
        return transactions.contains { size.exceeds($0.changes[...], nil) }
    }
}

/// The approximate size of a call in bytes.
private struct SizeEstimate {
    private var bytes: Int
    private let limit: Int

    init(_ kept: [UInt8]?, limit: Int) { (bytes, self.limit) = (kept?.count ?? 0, limit) }

    var isExceeded: Bool { bytes > limit }

    /// Adds changes, and returns whether that makes the call long.
    mutating func exceeds(_ changes: ArraySlice<HistoryChange>, _ values: CallValues?) -> Bool {
        // By index: a copy of a change would count the references to everything in it.
        for index in changes.indices {
            bytes += changes[index].estimatedBytes
            if let values { bytes += values.estimatedBytes(of: changes[index]) }
            if isExceeded { return true }
        }
        return isExceeded
    }
}

extension HistoryChange {
    /// Its approximate size in a call in bytes, without the row's values.
    fileprivate var estimatedBytes: Int {
        // A call contains a tombstone's values twice.
        let preserved = tombstone.map { $0.values.reduce(0) { $0 + 64 + 3 * $1.value.byteCount } } ?? 0
        return 256 + 3 * entity.name.utf8.count + 2 * objectID.byteCount + preserved
    }
}

extension CallValues {
    /// The approximate size of a change's row in bytes.
    fileprivate func estimatedBytes(of change: HistoryChange) -> Int {
        guard let row = rows.row(of: change.objectID, in: change.entity) else { return 0 }
        return row.values.reduce(0) { $0 + 32 + min($1.byteCount, maximumBytes) }
    }
}
