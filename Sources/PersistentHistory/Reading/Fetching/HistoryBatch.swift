/// Transactions in commit order.
public struct HistoryBatch: Sendable {
    /// In commit order.
    public let transactions: [HistoryTransaction]
    /// The position up to which was read, including what the filter excluded. The next batch begins after
    /// it.
    public let end: Int64
    /// Whether it is known that the history had no more transactions when the batch was read.
    public let isLast: Bool
    /// The origin of the change at the end. It distinguishes that change from one with the same number in
    /// a store that was restored and then continued. Nil if nothing was read.
    let fingerprint: String?
    /// The rows of its objects, if anyone wants them.
    var values: RowValues?

    /// The fingerprint of a change with this origin. What the extension writes is far shorter than the
    /// limit.
    package static func fingerprint(_ origin: some Collection<UInt8>) -> String {
        String(decoding: origin.prefix(Origin.longest), as: UTF8.self)
    }

    /// Whether it has the wanted values. Those of a large transaction are read with its changes.
    func covers(_ wanted: WantedValues?) -> Bool {
        guard let wanted else { return true }
        return values?.wanted.covers(wanted) ?? transactions.allSatisfy(\.changes.isEmpty)
    }
}
